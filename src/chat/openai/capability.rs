//! What a server can do, learned from what it refuses. Pure.
//!
//! Compatible servers differ in a handful of optional fields, and say so with a 400 or 422 that names the field. Asking
//! with everything that can be expected and taking one thing away per refusal needs no list of servers.

use serde_json::Value;
use url::Url;

use super::endpoint;
use super::failure::Said;

/// How an answer is kept to its form, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonForm {
    /// `response_format: json_schema`, strict.
    Schema,
    /// `response_format: json_object`.
    Object,
    /// By the prompt alone.
    Prompt,
}

/// The field that limits the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitField {
    /// `max_tokens`: the older name, which local servers know.
    MaxTokens,
    /// `max_completion_tokens`: the only one that OpenAI's reasoning models take.
    MaxCompletionTokens,
    /// None: the server takes neither.
    Unsaid,
}

/// What a request may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The form of answers beside tools. Local servers that constrain the output to a schema then never call a tool,
    /// so this begins at [`JsonForm::Prompt`] everywhere but at OpenAI.
    pub form_with_tools: JsonForm,
    /// The form of answers without tools.
    pub form_alone: JsonForm,
    /// `stream_options: {include_usage}`.
    pub stream_options: bool,
    /// `parallel_tool_calls: true`, which llama.cpp needs to be told.
    pub parallel_tool_calls: bool,
    /// The field that limits the output.
    pub limit: LimitField,
    /// Whether the other name of that field was refused already.
    pub limit_swapped: bool,
}

impl Capabilities {
    /// What to expect of a server before it has refused anything.
    pub fn expected_of(base: &Url) -> Self {
        let openai = endpoint::is_openai(base);
        Self {
            form_with_tools: if openai { JsonForm::Schema } else { JsonForm::Prompt },
            form_alone: JsonForm::Schema,
            stream_options: true,
            parallel_tool_calls: true,
            limit: if openai { LimitField::MaxCompletionTokens } else { LimitField::MaxTokens },
            limit_swapped: false,
        }
    }

    /// What is left when a request was refused with these words; `None` when they name nothing that can be left out.
    pub fn without(mut self, said: &Said, sent: &Value) -> Option<Self> {
        let has = |field: &str| sent.get(field).is_some();
        if has("stream_options") && said.names("stream_options") {
            self.stream_options = false;
        } else if has("parallel_tool_calls") && said.names("parallel_tool_calls") {
            self.parallel_tool_calls = false;
        } else if has("response_format") && FORM_WORDS.iter().any(|word| said.names(word)) {
            let form = if has("tools") { &mut self.form_with_tools } else { &mut self.form_alone };
            *form = match form {
                // A gateway that knows neither form often names the one it was sent; `json_object` is still tried,
                // because a server without schemas (DeepSeek) has it.
                JsonForm::Schema if !has("tools") => JsonForm::Object,
                _ => JsonForm::Prompt,
            };
        } else if limit_name(self.limit).is_some_and(|name| has(name) && said.names(name) && said.calls_unsupported()) {
            self.limit = match (self.limit_swapped, self.limit) {
                (true, _) | (_, LimitField::Unsaid) => LimitField::Unsaid,
                (false, LimitField::MaxTokens) => LimitField::MaxCompletionTokens,
                (false, LimitField::MaxCompletionTokens) => LimitField::MaxTokens,
            };
            self.limit_swapped = true;
        } else {
            return None;
        }
        Some(self)
    }
}

/// The name of a limit's field.
pub fn limit_name(limit: LimitField) -> Option<&'static str> {
    match limit {
        LimitField::MaxTokens => Some("max_tokens"),
        LimitField::MaxCompletionTokens => Some("max_completion_tokens"),
        LimitField::Unsaid => None,
    }
}

/// Words by which servers name the form: OpenAI, DeepSeek, Groq ("json mode cannot be combined with tool calling"),
/// vLLM, Gemini.
const FORM_WORDS: [&str; 8] = [
    "response_format",
    "json_schema",
    "json_object",
    "json mode",
    "json schema",
    "structured output",
    "guided decoding",
    "response mime type",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(can: Capabilities, sent: &Value, message: &str) -> Option<Capabilities> {
        can.without(&Said::of(&json!({"error": {"message": message}}).to_string()), sent)
    }

    fn expected(base: &str) -> Capabilities {
        Capabilities::expected_of(&Url::parse(base).unwrap())
    }

    #[test]
    fn a_form_goes_from_schema_to_object_to_prompt_and_no_further() {
        let sent = json!({"response_format": {}});
        let can = expected("http://127.0.0.1:8000");
        assert_eq!(can.form_alone, JsonForm::Schema);
        let object = refused(can, &sent, "This response_format type is unavailable now").unwrap();
        assert_eq!(object.form_alone, JsonForm::Object);
        let prompt = refused(object, &sent, "'response_format' is not supported").unwrap();
        assert_eq!(prompt.form_alone, JsonForm::Prompt);
        assert_eq!(refused(prompt, &json!({}), "'response_format' is not supported"), None);
    }

    #[test]
    fn a_form_refused_beside_tools_is_kept_without_them() {
        let sent = json!({"response_format": {}, "tools": []});
        let left =
            refused(expected("https://api.openai.com"), &sent, "json mode cannot be combined with tools").unwrap();
        assert_eq!((left.form_with_tools, left.form_alone), (JsonForm::Prompt, JsonForm::Schema));
    }

    #[test]
    fn the_limit_takes_its_other_name_once() {
        let can = expected("http://127.0.0.1:8000");
        let text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        let swapped = refused(can, &json!({"max_tokens": 1}), text).unwrap();
        assert_eq!(swapped.limit, LimitField::MaxCompletionTokens);
        let unsaid = refused(
            swapped,
            &json!({"max_completion_tokens": 1}),
            "Unrecognized request argument: max_completion_tokens",
        );
        assert_eq!(unsaid.unwrap().limit, LimitField::Unsaid);
    }

    #[test]
    fn a_prompt_too_long_takes_nothing_away() {
        let text = "This model's maximum context length is 8192 tokens. Reduce the prompt or max_tokens.";
        assert_eq!(refused(expected("http://127.0.0.1:8000"), &json!({"max_tokens": 1}), text), None);
    }

    #[test]
    fn a_field_is_read_from_a_validation_error_too() {
        let body = json!({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]});
        let sent = json!({"stream_options": {}});
        let left = expected("http://127.0.0.1:8000").without(&Said::of(&body.to_string()), &sent).unwrap();
        assert!(!left.stream_options);
    }
}
