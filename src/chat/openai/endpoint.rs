//! Where a provider's API is, and what its addresses tell. Pure.

use url::Url;

/// Most names of models that an error lists.
const LISTED: usize = 6;

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `api-key: KEY`, as Azure wants it.
    ApiKey,
}

/// The header a provider, or an address, wants its key in.
pub fn key_header(provider: &str, base: &Url) -> KeyHeader {
    if provider == "azure" || is_azure(base) { KeyHeader::ApiKey } else { KeyHeader::Bearer }
}

/// Whether an address is OpenAI's own service, there or on Azure.
pub fn is_openai(base: &Url) -> bool {
    is_azure(base) || base.host_str().is_some_and(|h| h == "api.openai.com" || h.ends_with(".api.openai.com"))
}

/// Whether an address is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// The address of `path` (`chat/completions`, `models`) under a base URL. A base without a path gets `/v1`; one that
/// has a path is taken as it is, because gateways and Azure put the API elsewhere. The query (`api-version`) is kept.
///
/// # Errors
/// A sentence for people, when the base is not an HTTP address.
pub fn endpoint(base: &Url, path: &str) -> Result<Url, String> {
    if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
        return Err("the model's base URL must begin with https:// or http:// and name a host".to_owned());
    }
    let stem = base.path().trim_end_matches('/');
    let stem = stem.strip_suffix("/chat/completions").unwrap_or(stem);
    let stem = if stem.is_empty() { "/v1" } else { stem };
    let mut url = base.clone();
    url.set_path(&format!("{stem}/{path}"));
    url.set_fragment(None);
    Ok(url)
}

/// Whether a list of models holds `model`, allowing for `NAME:latest` (Ollama) and `models/NAME` (Gemini). An empty
/// list says nothing, and so passes.
///
/// # Errors
/// A sentence that names what there is.
pub fn offers(list: &[String], model: &str) -> Result<(), String> {
    let same = |offered: &String| {
        let offered = offered.strip_prefix("models/").unwrap_or(offered);
        offered == model || offered.strip_suffix(":latest") == Some(model)
    };
    if list.is_empty() || list.iter().any(same) {
        return Ok(());
    }
    let mut names: Vec<&str> = list.iter().map(String::as_str).collect();
    names.sort_by_key(|name| std::cmp::Reverse(common_prefix(name, model)));
    let more = if names.len() > LISTED { ", …" } else { "" };
    names.truncate(LISTED);
    Err(format!("it has no model `{model}`; it offers {}{more}: set SECONDLOOK_MODEL to one of them", names.join(", ")))
}

fn is_azure(base: &Url) -> bool {
    base.host_str().is_some_and(|h| h.ends_with(".openai.azure.com") || h.ends_with(".cognitiveservices.azure.com"))
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_with_or_without_a_path_leads_to_the_endpoint() {
        for (base, expected) in [
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
            ("https://api.openai.com/v1/", "https://api.openai.com/v1/chat/completions"),
            ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
            ("https://x.test/v1/chat/completions", "https://x.test/v1/chat/completions"),
            (
                "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
                "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
        ] {
            let url = endpoint(&Url::parse(base).unwrap(), "chat/completions").unwrap();
            assert_eq!(url.as_str(), expected, "{base}");
        }
        assert!(endpoint(&Url::parse("file:///etc/passwd").unwrap(), "models").is_err());
        assert!(endpoint(&Url::parse("mailto:a@b.test").unwrap(), "models").is_err());
    }

    #[test]
    fn a_list_of_models_is_searched_by_every_spelling() {
        let list = ["llama3.1:latest".to_owned(), "models/gemini-2.5-flash".to_owned(), "gpt-5-mini".to_owned()];
        for model in ["llama3.1", "llama3.1:latest", "gemini-2.5-flash", "gpt-5-mini"] {
            assert_eq!(offers(&list, model), Ok(()), "{model}");
        }
        assert_eq!(offers(&[], "anything"), Ok(()));
        insta::assert_snapshot!(offers(&list, "gpt-5-maxi").unwrap_err(), @"it has no model `gpt-5-maxi`; it offers gpt-5-mini, llama3.1:latest, models/gemini-2.5-flash: set SECONDLOOK_MODEL to one of them");
    }

    #[test]
    fn only_addresses_on_this_machine_are_loopback() {
        for (url, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:8080", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
