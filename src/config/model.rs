//! Which model answers: `embedded`, or `provider::name` at an endpoint that speaks OpenAI's protocol.

use secrecy::SecretString;
use url::Url;

use super::ConfigError;
use super::layers::{Given, Layers};

/// The model used when there is a key and no model is named: the smallest of OpenAI's general models that calls tools
/// and keeps to a schema.
pub const DEFAULT_WITH_KEY: &str = "openai::gpt-5-mini";

/// The address shown where one cannot be read.
const EXAMPLE: &str = "https://api.openai.com/v1";

/// A chosen model.
#[derive(Debug, Clone)]
pub enum ModelChoice {
    /// The rules that are built in: no network, no key.
    Embedded,
    /// A model at an OpenAI-compatible endpoint.
    OpenAi {
        /// The part before the colons.
        provider: String,
        /// The name the endpoint knows.
        model: String,
        /// The endpoint.
        base_url: Url,
        /// Its key; local servers need none.
        api_key: Option<SecretString>,
    },
}

/// A provider whose endpoint speaks OpenAI's protocol.
struct Provider {
    name: &'static str,
    /// Where it is, by its own documentation; `None` when everybody has another one.
    base_url: Option<&'static str>,
    /// The variable in which its key is commonly kept; `OPENAI_API_KEY` serves when that is not set. `None` when it
    /// needs no key.
    key: Option<&'static str>,
}

const PROVIDERS: &[Provider] = &[
    Provider { name: "openai", base_url: Some("https://api.openai.com/v1"), key: Some("OPENAI_API_KEY") },
    Provider { name: "azure", base_url: None, key: Some("AZURE_OPENAI_API_KEY") },
    Provider { name: "deepseek", base_url: Some("https://api.deepseek.com/v1"), key: Some("DEEPSEEK_API_KEY") },
    Provider {
        name: "qwen",
        base_url: Some("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
        key: Some("DASHSCOPE_API_KEY"),
    },
    Provider { name: "moonshot", base_url: Some("https://api.moonshot.ai/v1"), key: Some("MOONSHOT_API_KEY") },
    Provider { name: "openrouter", base_url: Some("https://openrouter.ai/api/v1"), key: Some("OPENROUTER_API_KEY") },
    Provider { name: "ollama", base_url: Some("http://127.0.0.1:11434/v1"), key: None },
    Provider { name: "vllm", base_url: None, key: None },
    Provider { name: "llamacpp", base_url: None, key: None },
];

/// Providers with a protocol of their own, which also offer OpenAI's at this address.
const TRANSLATED: &[(&str, &str)] = &[
    ("anthropic", "https://api.anthropic.com/v1"),
    ("gemini", "https://generativelanguage.googleapis.com/v1beta/openai"),
];

/// The model that the layers name; [`ModelChoice::Embedded`] without a key, [`DEFAULT_WITH_KEY`] with one.
///
/// # Errors
/// When the name is not `provider::name`, the provider is unknown, or its key or address is missing.
pub fn choose(layers: &Layers) -> Result<ModelChoice, ConfigError> {
    let openai_key = layers.get("OPENAI_API_KEY");
    let (label, origin) = match layers.get("SECONDLOOK_MODEL") {
        Some(given) => (given.value.trim().to_owned(), given.origin),
        None if openai_key.is_some() => (DEFAULT_WITH_KEY.to_owned(), "the default model".to_owned()),
        None => return Ok(ModelChoice::Embedded),
    };
    if label == "embedded" {
        return Ok(ModelChoice::Embedded);
    }
    let Some((provider, model)) = label.split_once("::").filter(|(_, model)| !model.trim().is_empty()) else {
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", which names no model: write `embedded`, or provider::name as in {DEFAULT_WITH_KEY}"
        )));
    };
    if let Some((_, address)) = TRANSLATED.iter().find(|(name, _)| *name == provider) {
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", but this version speaks the protocol of OpenAI only, which {provider} offers too: \
             set SECONDLOOK_MODEL=openai::{model}, OPENAI_BASE_URL={address} and OPENAI_API_KEY to your {provider} key"
        )));
    }
    let Some(known) = PROVIDERS.iter().find(|known| known.name == provider) else {
        let names: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", and \"{provider}\" is no known provider: use embedded, one of {}, or openai:: with \
             OPENAI_BASE_URL for any other compatible endpoint",
            names.join(", ")
        )));
    };
    let base_url = match (layers.get("OPENAI_BASE_URL"), known.base_url) {
        (Some(given), _) => super::web_address(&given, EXAMPLE)?,
        (None, Some(address)) => {
            super::web_address(&Given { value: address.into(), origin: provider.into() }, EXAMPLE)?
        }
        (None, None) => {
            return Err(ConfigError(format!(
                "{origin} is \"{label}\", and {provider} has no fixed address: set OPENAI_BASE_URL to yours, up to and \
                 with /v1"
            )));
        }
    };
    let own_key = known.key.and_then(|name| layers.environment().get(name)).map(str::to_owned);
    let api_key = own_key.or(openai_key.map(|given| given.value)).map(|key| SecretString::from(key.trim().to_owned()));
    if api_key.is_none()
        && let Some(variable) = known.key
        // An endpoint of one's own may well ask for no key.
        && layers.get("OPENAI_BASE_URL").is_none()
    {
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", which needs a key: set {variable}, or use SECONDLOOK_MODEL=embedded to work without"
        )));
    }
    Ok(ModelChoice::OpenAi { provider: provider.to_owned(), model: model.trim().to_owned(), base_url, api_key })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::super::layers::{Environment, File, Flags};
    use super::*;

    fn chosen<const N: usize>(variables: [(&str, &str); N]) -> Result<String, String> {
        let layers = Layers::new(Flags::new(), Environment::from(variables), File::default());
        choose(&layers).map_err(|error| error.to_string()).map(|choice| match choice {
            ModelChoice::Embedded => "embedded".into(),
            ModelChoice::OpenAi { provider, model, base_url, api_key } => {
                let key = api_key.map_or("-".into(), |key| key.expose_secret().to_owned());
                format!("{provider} {model} {base_url} {key}")
            }
        })
    }

    #[test]
    fn without_a_key_the_embedded_model_answers() {
        assert_eq!(chosen([]).unwrap(), "embedded");
        assert_eq!(chosen([("SECONDLOOK_MODEL", "embedded"), ("OPENAI_API_KEY", "k")]).unwrap(), "embedded");
    }

    #[test]
    fn a_key_alone_is_enough_for_openai() {
        let expected = "openai gpt-5-mini https://api.openai.com/v1 k";
        assert_eq!(chosen([("OPENAI_API_KEY", "k")]).unwrap(), expected);
    }

    #[test]
    fn providers_have_their_address_and_key() {
        assert_eq!(
            chosen([("SECONDLOOK_MODEL", "ollama::qwen3:8b")]).unwrap(),
            "ollama qwen3:8b http://127.0.0.1:11434/v1 -"
        );
        assert_eq!(
            chosen([("SECONDLOOK_MODEL", "deepseek::chat"), ("DEEPSEEK_API_KEY", "d"), ("OPENAI_API_KEY", "o")])
                .unwrap(),
            "deepseek chat https://api.deepseek.com/v1 d"
        );
        assert_eq!(
            chosen([("SECONDLOOK_MODEL", "azure::mine"), ("OPENAI_BASE_URL", "https://a.example/openai/v1/")]).unwrap(),
            "azure mine https://a.example/openai/v1 -"
        );
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let wrong = |model| chosen([("SECONDLOOK_MODEL", model)]).unwrap_err();
        assert!(wrong("gpt-5").contains("write `embedded`, or provider::name"), "{}", wrong("gpt-5"));
        assert!(wrong("openai::").contains("names no model"));
        assert!(wrong("acme::x").contains("\"acme\" is no known provider: use embedded, one of openai, azure"));
        assert!(wrong("openai::gpt-5").contains("needs a key: set OPENAI_API_KEY"));
        assert!(wrong("anthropic::claude").contains("OPENAI_BASE_URL=https://api.anthropic.com/v1 and OPENAI_API_KEY"));
        assert!(wrong("azure::mine").contains("set OPENAI_BASE_URL"));
        let address = chosen([("SECONDLOOK_MODEL", "openai::m"), ("OPENAI_BASE_URL", "nowhere")]).unwrap_err();
        assert!(address.contains("OPENAI_BASE_URL is \"nowhere\""), "{address}");
    }
}
