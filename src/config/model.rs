//! Which model answers: `embedded`, or `provider::name` at an endpoint that speaks OpenAI's protocol.

use secrecy::SecretString;
use url::Url;

use super::ConfigError;
use super::layers::{Given, Layers};
use crate::chat::ModelRole;

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

/// The models beside the one that answers everything else.
#[derive(Debug, Clone, Default)]
pub struct OtherModels {
    /// Models of single roles.
    pub roles: Vec<(ModelRole, ModelChoice)>,
    /// Whom to ask, in this order, when the model of a role cannot answer.
    pub fallbacks: Vec<ModelChoice>,
}

/// The model that the layers name; [`ModelChoice::Embedded`] without a key, [`DEFAULT_WITH_KEY`] with one.
///
/// # Errors
/// When the name is not `provider::name`, the provider is unknown, or its key or address is missing.
pub fn choose(layers: &Layers) -> Result<ModelChoice, ConfigError> {
    let given = match layers.get("SECONDLOOK_MODEL") {
        Some(given) => given,
        None if layers.get("OPENAI_API_KEY").is_some() => {
            Given { value: DEFAULT_WITH_KEY.to_owned(), origin: "the default model".to_owned() }
        }
        None => return Ok(ModelChoice::Embedded),
    };
    resolve(layers, &given, None)
}

/// The models of `[models]`, beside the one that [`choose`] gave.
///
/// # Errors
/// See [`choose`].
pub fn others(layers: &Layers, main: &ModelChoice) -> Result<OtherModels, ConfigError> {
    let section = &layers.file().models;
    let main = match main {
        ModelChoice::Embedded => "embedded",
        ModelChoice::OpenAi { provider, .. } => provider,
    };
    let given = |key: &str, label: &str| {
        let given = Given { value: label.to_owned(), origin: format!("`models.{key}` in secondlook.toml") };
        resolve(layers, &given, Some(main))
    };
    let roles = [
        ("reviewer", ModelRole::Reviewer, &section.reviewer),
        ("critic", ModelRole::Critic, &section.critic),
        ("answer", ModelRole::Answer, &section.answer),
    ];
    let mut others = OtherModels::default();
    for (key, role, label) in roles {
        if let Some(label) = label {
            others.roles.push((role, given(key, label)?));
        }
    }
    for label in section.fallbacks.iter().flatten() {
        others.fallbacks.push(given("fallbacks", label)?);
    }
    Ok(others)
}

/// The model of a label. `main` is the provider of the model that answers everything else, when this is another one:
/// `OPENAI_BASE_URL` and `OPENAI_API_KEY` are meant for that, and must not reach anybody else.
fn resolve(layers: &Layers, given: &Given, main: Option<&str>) -> Result<ModelChoice, ConfigError> {
    let (label, origin) = (given.value.trim(), &given.origin);
    if label == "embedded" {
        return Ok(ModelChoice::Embedded);
    }
    let Some((provider, model)) = label.split_once("::").filter(|(_, model)| !model.trim().is_empty()) else {
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", which names no model: write `embedded`, or provider::name as in {DEFAULT_WITH_KEY}"
        )));
    };
    let endpoint = layers.file().endpoints.get(provider);
    if let Some((_, address)) = TRANSLATED.iter().find(|(name, _)| *name == provider)
        && endpoint.is_none()
    {
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", but this version speaks the protocol of OpenAI only, which {provider} offers too: \
             set SECONDLOOK_MODEL=openai::{model}, OPENAI_BASE_URL={address} and OPENAI_API_KEY to your {provider} key"
        )));
    }
    let known = PROVIDERS.iter().find(|known| known.name == provider);
    if known.is_none() && endpoint.is_none() {
        let names: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", and \"{provider}\" is no known provider: use embedded, one of {}, or openai:: with \
             OPENAI_BASE_URL for any other compatible endpoint",
            names.join(", ")
        )));
    }
    let own = main.is_none_or(|main| main == provider);
    let given_address = match endpoint.and_then(|endpoint| endpoint.base_url.clone()) {
        Some(value) => Some(Given { value, origin: format!("`endpoints.{provider}.base_url` in secondlook.toml") }),
        None if own => layers.get("OPENAI_BASE_URL"),
        None => None,
    };
    let has_own_address = given_address.is_some();
    let address = given_address.or_else(|| {
        let fixed = known?.base_url?;
        Some(Given { value: fixed.into(), origin: provider.into() })
    });
    let Some(address) = address else {
        let place = if own { "OPENAI_BASE_URL".to_owned() } else { format!("`endpoints.{provider}.base_url`") };
        return Err(ConfigError(format!(
            "{origin} is \"{label}\", and {provider} has no fixed address: set {place} to yours, up to and with /v1"
        )));
    };
    let base_url = super::web_address(&address, EXAMPLE)?;
    let variable = known.and_then(|known| known.key);
    let shared = own || provider == "openai";
    let api_key = endpoint
        .and_then(|endpoint| endpoint.api_key.clone())
        .or_else(|| variable.and_then(|name| layers.environment().get(name)).map(str::to_owned))
        .or_else(|| layers.get("OPENAI_API_KEY").filter(|_| shared).map(|given| given.value))
        .map(|key| SecretString::from(key.trim().to_owned()));
    if api_key.is_none()
        && let Some(variable) = variable
        // An endpoint of one's own may well ask for no key.
        && !has_own_address
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

    use super::super::layers::{Environment, File, Flags, parse_file};
    use super::*;

    fn words(choice: ModelChoice) -> String {
        match choice {
            ModelChoice::Embedded => "embedded".into(),
            ModelChoice::OpenAi { provider, model, base_url, api_key } => {
                let key = api_key.map_or("-".into(), |key| key.expose_secret().to_owned());
                format!("{provider} {model} {base_url} {key}")
            }
        }
    }

    fn chosen<const N: usize>(variables: [(&str, &str); N]) -> Result<String, String> {
        let layers = Layers::new(Flags::new(), Environment::from(variables), File::default());
        choose(&layers).map_err(|error| error.to_string()).map(words)
    }

    /// The models beside the main one, `role=` or `then=` before each.
    fn beside<const N: usize>(variables: [(&str, &str); N], file: &str) -> Result<Vec<String>, String> {
        let file = parse_file(file, std::path::Path::new("secondlook.toml")).unwrap();
        let layers = Layers::new(Flags::new(), Environment::from(variables), file);
        let main = choose(&layers).map_err(|error| error.to_string())?;
        let others = others(&layers, &main).map_err(|error| error.to_string())?;
        let roles = others.roles.into_iter().map(|(role, choice)| format!("{role:?}={}", words(choice)));
        Ok(roles.chain(others.fallbacks.into_iter().map(|choice| format!("then={}", words(choice)))).collect())
    }

    #[test]
    fn roles_and_fallbacks_have_addresses_and_keys_of_their_own() {
        let file = "[models]\ncritic = 'openai::small'\nfallbacks = ['deepseek::chat', 'lab::big', 'embedded']\n\
                    [endpoints.lab]\nbase_url = 'http://10.0.0.5:8000/v1'\n";
        let variables =
            [("OPENAI_API_KEY", "o"), ("OPENAI_BASE_URL", "https://gate.example/v1"), ("DEEPSEEK_API_KEY", "d")];
        assert_eq!(
            beside(variables, file).unwrap(),
            [
                "Critic=openai small https://gate.example/v1 o",
                "then=deepseek chat https://api.deepseek.com/v1 d",
                "then=lab big http://10.0.0.5:8000/v1 -",
                "then=embedded",
            ]
        );
        // The key of one provider never reaches another.
        let error = beside([("OPENAI_API_KEY", "o")], "[models]\nfallbacks = ['deepseek::chat']\n").unwrap_err();
        assert!(
            error.contains("`models.fallbacks` in secondlook.toml") && error.contains("set DEEPSEEK_API_KEY"),
            "{error}"
        );
        let error = beside([("OPENAI_API_KEY", "o")], "[models]\ncritic = 'vllm::x'\n").unwrap_err();
        assert!(error.contains("set `endpoints.vllm.base_url`"), "{error}");
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
