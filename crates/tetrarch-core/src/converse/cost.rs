//! What a call of a model costs (spec 06, Budgets; spec 12, `[prices]`): tokens, prices, and the worst case of a
//! call that is not made yet.

use std::collections::BTreeMap;

use serde_json::Value;

/// Bytes of text that make at least one token, for a worst case.
const BYTES_PER_TOKEN: u64 = 2;
/// Tokens that a price is for.
const PRICED_TOKENS: u128 = 1_000_000;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// What the model read, the cached part among it.
    pub input: u64,
    /// What of it came from the provider's cache.
    pub cached: u64,
    /// What it wrote.
    pub output: u64,
}

/// Tokens of a text of so many bytes, at most about so many.
#[must_use]
pub fn tokens_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}

/// The price of a model, in millionths of a dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Price {
    /// Of what it reads.
    pub input: u64,
    /// Of what it writes.
    pub output: u64,
    /// Of what it reads from the provider's cache.
    pub cached: u64,
}

impl Price {
    /// What so many tokens cost, in millionths of a dollar, rounded up.
    #[must_use]
    pub fn of(self, tokens: Tokens) -> u64 {
        let cached = tokens.cached.min(tokens.input);
        let parts = [
            (tokens.input - cached, self.input),
            (cached, self.cached),
            (tokens.output, self.output),
        ];
        let sum: u128 =
            parts.iter().map(|(tokens, price)| u128::from(*tokens) * u128::from(*price)).sum();
        u64::try_from(sum.div_ceil(PRICED_TOKENS)).unwrap_or(u64::MAX)
    }
}

/// Prices by model, as `[prices] file` has them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Reads a price file: `models`, by name or `provider/name`, each with `input`, `output` and perhaps
    /// `cached` in millionths of a dollar for a million tokens, and perhaps the `date` they are of.
    ///
    /// # Errors
    /// What is wrong, with the model and the key.
    pub fn read(file: &Value) -> Result<Self, String> {
        let top = file.as_object().ok_or("it is not a mapping; expected `date` and `models`")?;
        if let Some(key) = top.keys().find(|key| !["date", "models"].contains(&key.as_str())) {
            return Err(format!("unknown key {key}; known: date, models"));
        }
        let models = top.get("models").and_then(Value::as_object);
        let models = models.ok_or("`models` is missing: a mapping from models to prices")?;
        models.iter().map(|(name, price)| Ok((name.clone(), price_of(name, price)?))).collect()
    }

    /// The price of a model: under `provider/model`, else under its own name. None when it is not known.
    #[must_use]
    pub fn of(&self, provider: &str, model: &str) -> Option<Price> {
        self.0.get(&format!("{provider}/{model}")).or_else(|| self.0.get(model)).copied()
    }

    /// The most that any model of a provider costs, for one whose own price is not known.
    #[must_use]
    pub fn highest(&self, provider: &str) -> Option<Price> {
        let is_its = |name: &&String| match name.split_once('/') {
            Some((of, _)) => of == provider,
            None => true,
        };
        let its = self.0.iter().filter(|(name, _)| is_its(name)).map(|(_, price)| *price);
        its.reduce(|one, other| Price {
            input: one.input.max(other.input),
            output: one.output.max(other.output),
            cached: one.cached.max(other.cached),
        })
    }
}

impl FromIterator<(String, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, Price)>>(models: I) -> Self {
        Self(models.into_iter().collect())
    }
}

fn price_of(name: &str, value: &Value) -> Result<Price, String> {
    let keys = value.as_object().ok_or_else(|| format!("models.{name} is not a mapping"))?;
    if let Some(key) =
        keys.keys().find(|key| !["input", "output", "cached"].contains(&key.as_str()))
    {
        return Err(format!("models.{name}: unknown key {key}; known: input, output, cached"));
    }
    let whole = |key: &str| {
        let given = keys.get(key).map(|value| {
            value.as_u64().ok_or_else(|| {
                format!("models.{name}.{key} is not a whole number of micro-dollars")
            })
        });
        given.transpose()
    };
    let missing = |key: &str| format!("models.{name}.{key} is missing");
    let input = whole("input")?.ok_or_else(|| missing("input"))?;
    let output = whole("output")?.ok_or_else(|| missing("output"))?;
    // What is not known to be cheaper is not.
    let cached = whole("cached")?.unwrap_or(input);
    Ok(Price { input, output, cached })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn call_cost_is_rounded_up() {
        let price = Price { input: 2_500_000, output: 10_000_000, cached: 250_000 };
        let cost = |input, cached, output| price.of(Tokens { input, cached, output });
        assert_eq!(cost(1_000_000, 0, 0), 2_500_000);
        assert_eq!(cost(1_000_000, 1_000_000, 0), 250_000);
        assert_eq!(cost(1, 0, 0), 3);
        assert_eq!(cost(0, 0, 0), 0);
        // A provider that says more was cached than read.
        assert_eq!(cost(1, 9, 1), 11);
        assert_eq!(cost(u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!((tokens_of(0), tokens_of(1), tokens_of(3)), (0, 1, 2));
    }

    #[test]
    fn provider_price_precedes_generic_price() {
        let file = json!({"date": "2026-11-01", "models": {
            "m": {"input": 1, "output": 2},
            "openai/m": {"input": 3, "output": 4, "cached": 1},
        }});
        let prices = Prices::read(&file).unwrap();
        assert_eq!(prices.of("openai", "m"), Some(Price { input: 3, output: 4, cached: 1 }));
        assert_eq!(prices.of("other", "m"), Some(Price { input: 1, output: 2, cached: 1 }));
        assert_eq!(prices.of("openai", "n"), None);
        assert_eq!(prices.highest("openai"), Some(Price { input: 3, output: 4, cached: 1 }));
        assert_eq!(prices.highest("other"), Some(Price { input: 1, output: 2, cached: 1 }));
        assert_eq!(Prices::default().highest("openai"), None);
    }

    #[test]
    fn invalid_price_file_is_reported() {
        let rows = [
            (json!([]), "not a mapping"),
            (json!({}), "`models` is missing"),
            (json!({"models": {}, "model": 1}), "unknown key model"),
            (json!({"models": {"m": 1}}), "models.m is not a mapping"),
            (json!({"models": {"m": {"input": 1}}}), "models.m.output is missing"),
            (
                json!({"models": {"m": {"input": 1.5, "output": 1}}}),
                "models.m.input is not a whole",
            ),
            (
                json!({"models": {"m": {"input": 1, "output": 1, "x": 1}}}),
                "models.m: unknown key x",
            ),
        ];
        for (file, why) in rows {
            let error = Prices::read(&file).unwrap_err();
            assert!(error.contains(why), "{file}: {error}");
        }
    }
}
