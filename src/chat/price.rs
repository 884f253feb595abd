//! What tokens cost. Data, with overrides; pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TokenUsage;

/// Prices of one model, in millionths of a US dollar for a million tokens: the providers' list prices in dollars, times
/// a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Price {
    /// Prompt tokens that were not cached.
    pub input: u64,
    /// Prompt tokens served from the provider's cache.
    pub cached_input: u64,
    /// Generated tokens.
    pub output: u64,
}

/// Prices by model name.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    overrides: BTreeMap<String, Price>,
}

impl PriceTable {
    /// The known prices, with `overrides` before them: by `provider::name` or by the bare name.
    pub fn new(overrides: BTreeMap<String, Price>) -> Self {
        Self { overrides }
    }

    /// The price of `provider::name`; `None` when it is not known.
    pub fn price(&self, model: &str) -> Option<Price> {
        let bare = model.rsplit_once("::").map_or(model, |(_, name)| name);
        let listed = |name: &str| KNOWN.iter().find(|known| known.0 == name).map(price);
        // Gateways put the maker before the name.
        let unprefixed = bare.rsplit_once('/').map_or(bare, |(_, name)| name);
        self.overrides
            .get(model)
            .or_else(|| self.overrides.get(bare))
            .copied()
            .or_else(|| listed(unprefixed))
            .or_else(|| listed(undated(unprefixed)))
    }

    /// The cost of a usage, in millionths of a US dollar; 0 when the price is not known.
    pub fn cost(&self, model: &str, usage: &TokenUsage) -> u64 {
        let Some(price) = self.price(model) else { return 0 };
        let fresh = usage.input.saturating_sub(usage.cached_input);
        let parts = [(fresh, price.input), (usage.cached_input, price.cached_input), (usage.output, price.output)];
        let sum: u128 = parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(sum / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// Name, and cents of a US dollar ×10 (so that 2.5 cents are 25) for a million input, cached and output tokens: the list
/// prices that OpenAI, Anthropic, Google and DeepSeek published in July 2026.
const KNOWN: &[(&str, u64, u64, u64)] = &[
    ("gpt-5.5", 5_000, 500, 30_000),
    ("gpt-5.4", 2_500, 250, 15_000),
    ("gpt-5.2", 1_750, 175, 14_000),
    ("gpt-5.1", 1_250, 125, 10_000),
    ("gpt-5", 1_250, 125, 10_000),
    ("gpt-5-codex", 1_250, 125, 10_000),
    ("gpt-5-mini", 250, 25, 2_000),
    ("gpt-5-nano", 50, 5, 400),
    ("gpt-4.1", 2_000, 500, 8_000),
    ("gpt-4.1-mini", 400, 100, 1_600),
    ("gpt-4.1-nano", 100, 25, 400),
    ("gpt-4o", 2_500, 1_250, 10_000),
    ("gpt-4o-mini", 150, 75, 600),
    ("o3", 2_000, 500, 8_000),
    ("o4-mini", 1_100, 275, 4_400),
    ("claude-opus-4-6", 5_000, 500, 25_000),
    ("claude-opus-4-5", 5_000, 500, 25_000),
    ("claude-sonnet-4-6", 3_000, 300, 15_000),
    ("claude-sonnet-4-5", 3_000, 300, 15_000),
    ("claude-haiku-4-5", 1_000, 100, 5_000),
    ("gemini-2.5-pro", 1_250, 125, 10_000),
    ("gemini-2.5-flash", 300, 30, 2_500),
    ("gemini-2.5-flash-lite", 100, 10, 400),
    ("deepseek-chat", 280, 28, 420),
    ("deepseek-reasoner", 280, 28, 420),
];

fn price(known: &(&str, u64, u64, u64)) -> Price {
    Price { input: known.1 * 1_000, cached_input: known.2 * 1_000, output: known.3 * 1_000 }
}

/// A name without the date that pins it: `-2025-08-07` or `-20250929`.
fn undated(name: &str) -> &str {
    let digits = |text: &str, lengths: &[usize]| {
        let parts: Vec<&str> = text.split('-').collect();
        parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, n)| part.len() == *n && part.bytes().all(|b| b.is_ascii_digit()))
    };
    for (length, form) in [(10, &[4, 2, 2][..]), (8, &[8][..])] {
        let Some(at) = name.len().checked_sub(length + 1) else { continue };
        if let (Some(stem), Some(date)) = (name.get(..at), name.get(at + 1..))
            && name.as_bytes().get(at) == Some(&b'-')
            && digits(date, form)
        {
            return stem;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, cached_input: u64, output: u64) -> TokenUsage {
        TokenUsage { calls: 1, input, cached_input, output, cost_micro_usd: 0 }
    }

    #[test]
    fn a_known_model_is_priced_by_any_of_its_names() {
        let table = PriceTable::default();
        let expected = table.price("openai::gpt-5-mini");
        assert!(expected.is_some());
        for name in ["gpt-5-mini", "openai::gpt-5-mini-2025-08-07", "openrouter::openai/gpt-5-mini"] {
            assert_eq!(table.price(name), expected, "{name}");
        }
        for name in ["openai::gpt-5-maxi", "embedded", "", "gpt-5-mini-", "ä-20250101"] {
            assert_eq!(table.price(name), None, "{name}");
        }
        assert_eq!(table.price("claude-sonnet-4-5-20250929"), table.price("claude-sonnet-4-5"));
    }

    #[test]
    fn cost_counts_cached_tokens_apart() {
        // 600 fresh at 0.25 dollars a million, 400 cached at 0.025, 100 generated at 2.
        assert_eq!(PriceTable::default().cost("openai::gpt-5-mini", &usage(1_000, 400, 100)), 150 + 10 + 200);
        assert_eq!(PriceTable::default().cost("x::unknown", &usage(1_000, 400, 100)), 0);
        assert_eq!(PriceTable::default().cost("gpt-5.5", &usage(u64::MAX, 0, u64::MAX)), u64::MAX);
    }

    #[test]
    fn overrides_come_first() {
        let price = Price { input: 1_000_000, cached_input: 0, output: 0 };
        let table = PriceTable::new(BTreeMap::from([("local".to_owned(), price), ("openai::gpt-5".to_owned(), price)]));
        assert_eq!(table.cost("vllm::local", &usage(7, 0, 0)), 7);
        assert_eq!(table.price("openai::gpt-5"), Some(price));
        assert_ne!(table.price("azure::gpt-5"), Some(price));
    }
}
