//! From a [`ChatRequest`] to the body of `chat/completions`. Pure.

use serde_json::{Map, Value, json};

use super::capability::{Capabilities, JsonForm, limit_name};
use super::schema;
use crate::chat::{ChatMessage, ChatRequest, ToolCall, ToolSpecification};

/// Characters of malformed arguments that are shown to the model again.
const MAX_MALFORMED: usize = 2_000;

/// The body for a model, within what its server can do. The model's name is sent untouched.
pub fn encode(model: &str, request: &ChatRequest, can: &Capabilities) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("messages".to_owned(), request.messages.iter().map(message).collect());
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
        if can.parallel_tool_calls {
            body.insert("parallel_tool_calls".to_owned(), json!(true));
        }
    }
    if let Some(format) = response_format(request, can) {
        body.insert("response_format".to_owned(), format);
    }
    if let (Some(limit), Some(field)) = (request.max_output_tokens, limit_name(can.limit)) {
        body.insert(field.to_owned(), json!(limit));
    }
    body.insert("stream".to_owned(), json!(true));
    if can.stream_options {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

fn message(message: &ChatMessage) -> Value {
    match message {
        ChatMessage::System { text } => json!({"role": "system", "content": text}),
        ChatMessage::User { text } => json!({"role": "user", "content": text}),
        ChatMessage::Assistant { text, tool_calls } if tool_calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        ChatMessage::Assistant { text, tool_calls } => {
            // Some servers refuse an empty text beside calls; null is in the specification.
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({"role": "assistant", "content": content, "tool_calls": tool_calls.iter().map(call).collect::<Value>()})
        }
        ChatMessage::Tool { call_id, text, .. } => json!({"role": "tool", "tool_call_id": call_id, "content": text}),
    }
}

fn call(call: &ToolCall) -> Value {
    let arguments = match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => call.arguments.clone(),
        // Servers whose templates read the arguments answer 400 to what is not an object, and the conversation would
        // be lost; the model still sees what it wrote.
        Err(_) => {
            let wrote: String = call.arguments.chars().take(MAX_MALFORMED).collect();
            json!({"malformed_arguments": wrote}).to_string()
        }
    };
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
}

fn tool(tool: &ToolSpecification) -> Value {
    let function = json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    json!({"type": "function", "function": function})
}

fn response_format(request: &ChatRequest, can: &Capabilities) -> Option<Value> {
    let wanted = request.response_schema.as_ref()?;
    match if request.tools.is_empty() { can.form_alone } else { can.form_with_tools } {
        JsonForm::Schema => {
            let schema = schema::strict(&wanted.schema);
            let format = json!({"name": schema::name(&wanted.name), "strict": true, "schema": schema});
            Some(json!({"type": "json_schema", "json_schema": format}))
        }
        // OpenAI and DeepSeek refuse `json_object` when no message says "JSON".
        JsonForm::Object if request.messages.iter().any(|m| says_json(m.text())) => {
            Some(json!({"type": "json_object"}))
        }
        JsonForm::Object | JsonForm::Prompt => None,
    }
}

fn says_json(text: &str) -> bool {
    text.as_bytes().windows(4).any(|w| w.eq_ignore_ascii_case(b"json"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Conversation, ModelRole, ResponseSchema};
    use url::Url;

    fn can(base: &str) -> Capabilities {
        Capabilities::expected_of(&Url::parse(base).unwrap())
    }

    fn request() -> ChatRequest {
        ChatRequest {
            conversation: Conversation { role: ModelRole::Reviewer, subject: "src/a.rs".to_owned() },
            messages: vec![ChatMessage::system("Answer as JSON."), ChatMessage::user("Look.")],
            tools: Vec::new(),
            response_schema: None,
            max_output_tokens: None,
        }
    }

    fn reader() -> ToolSpecification {
        ToolSpecification {
            name: "read_file".to_owned(),
            description: "Reads.".to_owned(),
            parameters: json!({"type": "object"}),
        }
    }

    fn call_of(id: &str, arguments: &str) -> ToolCall {
        ToolCall { id: id.to_owned(), name: "read_file".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn a_tool_round_trip_is_written_in_full() {
        let mut request = request();
        request.tools = vec![reader()];
        request.max_output_tokens = Some(900);
        request.messages.push(ChatMessage::Assistant {
            text: String::new(),
            tool_calls: vec![call_of("c1", r#"{"path":"a"}"#), call_of("c2", "{\"path\":")],
        });
        for (id, text) in [("c1", "fn a() {}"), ("c2", "bad arguments: not JSON")] {
            let (call_id, name, text) = (id.to_owned(), "read_file".to_owned(), text.to_owned());
            request.messages.push(ChatMessage::Tool { call_id, name, text });
        }
        let body = encode("qwen-max", &request, &can("http://127.0.0.1:8000"));
        insta::assert_snapshot!(serde_json::to_string_pretty(&body).unwrap(), @r#"
        {
          "model": "qwen-max",
          "messages": [
            {
              "role": "system",
              "content": "Answer as JSON."
            },
            {
              "role": "user",
              "content": "Look."
            },
            {
              "role": "assistant",
              "content": null,
              "tool_calls": [
                {
                  "id": "c1",
                  "type": "function",
                  "function": {
                    "name": "read_file",
                    "arguments": "{\"path\":\"a\"}"
                  }
                },
                {
                  "id": "c2",
                  "type": "function",
                  "function": {
                    "name": "read_file",
                    "arguments": "{\"malformed_arguments\":\"{\\\"path\\\":\"}"
                  }
                }
              ]
            },
            {
              "role": "tool",
              "tool_call_id": "c1",
              "content": "fn a() {}"
            },
            {
              "role": "tool",
              "tool_call_id": "c2",
              "content": "bad arguments: not JSON"
            }
          ],
          "tools": [
            {
              "type": "function",
              "function": {
                "name": "read_file",
                "description": "Reads.",
                "parameters": {
                  "type": "object"
                }
              }
            }
          ],
          "parallel_tool_calls": true,
          "max_tokens": 900,
          "stream": true,
          "stream_options": {
            "include_usage": true
          }
        }
        "#);
    }

    #[test]
    fn the_form_depends_on_the_server_and_on_tools() {
        let mut request = request();
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        request.response_schema = Some(ResponseSchema { name: "findings".to_owned(), schema });
        let kind = |request: &ChatRequest, can: &Capabilities| {
            encode("m", request, can).pointer("/response_format/type").and_then(Value::as_str).map(str::to_owned)
        };
        let local = can("http://127.0.0.1:8000");
        assert_eq!(kind(&request, &local).as_deref(), Some("json_schema"));
        let object = Capabilities { form_alone: JsonForm::Object, ..local };
        assert_eq!(kind(&request, &object).as_deref(), Some("json_object"));
        request.tools = vec![reader()];
        assert_eq!(kind(&request, &local), None);
        assert_eq!(kind(&request, &can("https://api.openai.com")).as_deref(), Some("json_schema"));
        request.tools.clear();
        request.messages = vec![ChatMessage::user("no such word")];
        assert_eq!(kind(&request, &object), None);
    }

    #[test]
    fn openai_gets_the_limit_by_its_new_name() {
        let mut request = request();
        request.max_output_tokens = Some(5);
        let body = encode("gpt-5-mini", &request, &can("https://api.openai.com/v1"));
        assert_eq!((body.get("max_tokens"), &body["max_completion_tokens"]), (None, &json!(5)));
    }
}
