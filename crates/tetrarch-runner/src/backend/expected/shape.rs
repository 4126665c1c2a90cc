//! How much work a JSON Schema makes of a deliverable, counted before it is checked: by references, few bytes can ask
//! for more steps than anybody waits for, or for more nested ones than a stack holds. Validates nothing.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// Ways to come from one part of a schema to others without going deeper into a deliverable.
const EXPANSIONS_MAX: u64 = 10_000;
/// The longest of these ways, in parts.
const CHAIN_MAX: u64 = 128;
/// The longest way through a schema and a deliverable, in parts; 16 KiB of the checker's stack are there for each.
pub(super) const NESTED_MAX: u64 = 4096;
/// Parts of a deliverable, times the ways on which a schema comes to the same one.
const STEPS_MAX: u64 = 20_000_000;
/// How often the checker looks at the neighbours of `unevaluatedProperties` or `unevaluatedItems`, at most.
const UNEVALUATED: u64 = 4;

/// Keywords whose schema is for the same place of the deliverable, and those with a list or an object of them.
const SAME: [&str; 4] = ["not", "if", "then", "else"];
const SAME_MANY: [&str; 5] = ["allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"];
/// Keywords for what is in that place, of which one at most is for each part.
const EITHER: [&str; 5] =
    ["properties", "additionalProperties", "prefixItems", "items", "additionalItems"];
/// Keywords for what is in that place, which come on top.
const BESIDES: [&str; 3] = ["contains", "propertyNames", "patternProperties"];
const REST: [&str; 2] = ["unevaluatedProperties", "unevaluatedItems"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
const ANCHORS: [&str; 2] = ["$anchor", "$dynamicAnchor"];

/// The parts of a schema, and which lead to which; those for the same place come before what leads to them.
#[derive(Debug)]
pub(super) struct SchemaShape(Vec<Part>);

/// One part, with the numbers of others.
#[derive(Debug, Default)]
struct Part {
    same: Vec<usize>,
    either: Vec<usize>,
    besides: Vec<usize>,
    repeats: u64,
}

/// From one part on: all ways, and the parts on the longest.
#[derive(Debug, Clone, Copy, Default)]
struct Ways {
    count: u64,
    longest: u64,
}

impl SchemaShape {
    /// Looks at a schema.
    ///
    /// # Errors
    /// It refers to itself for the same place, expands beyond all bounds, or refers to something outside.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let shape = Self(in_order(parts(schema)?)?);
        let ways = shape.ways(0);
        if ways.iter().any(|ways| ways.count > EXPANSIONS_MAX) {
            return Err(format!("its references expand to more than {EXPANSIONS_MAX} schemas"));
        }
        if ways.iter().any(|ways| ways.longest > CHAIN_MAX) {
            return Err(format!("more than {CHAIN_MAX} schemas are nested for one value"));
        }
        Ok(shape)
    }

    /// Why a deliverable cannot be checked against the schema.
    pub(super) fn fault(&self, deliverable: &Value) -> Option<String> {
        let (depth, values) = size(deliverable);
        let ways = self.ways(depth);
        let longest = ways.iter().map(|ways| ways.longest).max().unwrap_or(0);
        let count = ways.iter().map(|ways| ways.count).max().unwrap_or(0);
        if longest > NESTED_MAX {
            return Some(format!("{depth} levels are too deep to be checked against this schema"));
        }
        let much = count.saturating_mul(values) > STEPS_MAX;
        much.then(|| {
            format!(
                "{values} values in {depth} levels are too many to be checked against this schema"
            )
        })
    }

    /// What begins at each part, in a deliverable of this many levels below.
    fn ways(&self, depth: usize) -> Vec<Ways> {
        let mut below = vec![Ways::default(); self.0.len()];
        for _ in 0..=depth {
            let mut here: Vec<Ways> = Vec::with_capacity(self.0.len());
            for part in &self.0 {
                let same = all(&part.same, &here);
                let (either, besides) = (all(&part.either, &below), all(&part.besides, &below));
                let most = part.either.iter().filter_map(|at| below.get(*at)).map(|it| it.count);
                let count = same.count.saturating_add(most.max().unwrap_or(0));
                let count = count.saturating_add(besides.count).saturating_mul(part.repeats);
                let longest = same.longest.max(either.longest).max(besides.longest);
                here.push(Ways { count: count.saturating_add(1), longest: longest + 1 });
            }
            below = here;
        }
        below
    }
}

fn all(which: &[usize], of: &[Ways]) -> Ways {
    which.iter().filter_map(|at| of.get(*at)).fold(Ways::default(), |sum, it| Ways {
        count: sum.count.saturating_add(it.count),
        longest: sum.longest.max(it.longest),
    })
}

/// The levels below a value, and all values.
fn size(value: &Value) -> (usize, u64) {
    let within: Vec<&Value> = match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return (0, 1),
    };
    within.into_iter().map(size).fold((1, 1), |(depth, values), (below, more)| {
        (depth.max(below + 1), values.saturating_add(more))
    })
}

/// A schema while its parts are numbered.
struct Numbering<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, Vec<&'s Value>>,
    numbers: HashMap<*const Value, usize>,
    found: Vec<&'s Value>,
}

/// All parts that a schema leads to, itself first.
fn parts(schema: &Value) -> Result<Vec<Part>, String> {
    let mut anchors = HashMap::new();
    look_for_anchors(schema, &mut anchors)?;
    let mut it = Numbering { root: schema, anchors, numbers: HashMap::new(), found: Vec::new() };
    it.number(schema);
    let mut parts = Vec::new();
    while let Some(next) = it.found.get(parts.len()).copied() {
        parts.push(next.as_object().map_or_else(|| Ok(Part::default()), |map| it.part(map))?);
    }
    Ok(parts)
}

impl<'s> Numbering<'s> {
    fn number(&mut self, schema: &'s Value) -> usize {
        let next = self.found.len();
        let number = *self.numbers.entry(std::ptr::from_ref(schema)).or_insert(next);
        if number == next {
            self.found.push(schema);
        }
        number
    }

    fn part(&mut self, schema: &'s Map<String, Value>) -> Result<Part, String> {
        let mut part = Part::default();
        for (key, value) in schema {
            let key = key.as_str();
            if REFERENCES.contains(&key) {
                for target in self.targets(value.as_str().unwrap_or_default())? {
                    part.same.push(self.number(target));
                }
            } else if SAME.contains(&key) {
                part.same.push(self.number(value));
            } else if SAME_MANY.contains(&key) {
                part.same.extend(self.members(value));
            } else if key == "properties"
                || key == "prefixItems"
                || value.is_array() && EITHER.contains(&key)
            {
                part.either.extend(self.members(value));
            } else if EITHER.contains(&key) {
                part.either.push(self.number(value));
            } else if key == "patternProperties" {
                part.besides.extend(self.members(value));
            } else if BESIDES.contains(&key) || REST.contains(&key) {
                part.besides.push(self.number(value));
            }
        }
        part.repeats =
            if REST.iter().any(|key| schema.contains_key(*key)) { UNEVALUATED } else { 1 };
        Ok(part)
    }

    fn members(&mut self, many: &'s Value) -> Vec<usize> {
        match many {
            Value::Array(list) => list.iter().map(|it| self.number(it)).collect(),
            Value::Object(map) => map.values().map(|it| self.number(it)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }

    /// What a reference may mean. One that leads nowhere is left to the checker, which refuses it.
    fn targets(&self, reference: &str) -> Result<Vec<&'s Value>, String> {
        let own = self.root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !(base.is_empty() || base == own.trim_end_matches('#')) || fragment.contains('%') {
            return Err(format!(
                "{reference} is not a reference within the schema, as #/$defs/name is"
            ));
        }
        if fragment.is_empty() || fragment.starts_with('/') {
            return Ok(self.root.pointer(fragment).into_iter().collect());
        }
        Ok(self.anchors.get(fragment).cloned().unwrap_or_default())
    }
}

/// Finds what has a name to refer to, and refuses what changes the meaning of the references in it.
fn look_for_anchors<'s>(
    root: &'s Value,
    anchors: &mut HashMap<&'s str, Vec<&'s Value>>,
) -> Result<(), String> {
    let version = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let id = if version.contains("draft-04") { "id" } else { "$id" };
    let mut left = vec![root];
    while let Some(next) = left.pop() {
        match next {
            Value::Array(list) => left.extend(list),
            Value::Object(map) => {
                if !std::ptr::eq(next, root) && map.get(id).is_some_and(Value::is_string) {
                    return Err(format!("it has an {id} in it; only the whole may have one"));
                }
                for name in ANCHORS.iter().filter_map(|key| map.get(*key)?.as_str()) {
                    anchors.entry(name).or_default().push(next);
                }
                left.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Ok(())
}

/// The parts in such an order that those for the same place come before what leads to them.
fn in_order(parts: Vec<Part>) -> Result<Vec<Part>, String> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); parts.len()];
    for (at, part) in parts.iter().enumerate() {
        for same in &part.same {
            users.get_mut(*same).into_iter().for_each(|it| it.push(at));
        }
    }
    let mut waits: Vec<usize> = parts.iter().map(|part| part.same.len()).collect();
    let mut order: Vec<usize> = (0..parts.len()).filter(|at| waits.get(*at) == Some(&0)).collect();
    let mut done = 0;
    while let Some(at) = order.get(done).copied() {
        done += 1;
        for user in users.get(at).into_iter().flatten() {
            if let Some(left) = waits.get_mut(*user) {
                *left -= 1;
                if *left == 0 {
                    order.push(*user);
                }
            }
        }
    }
    if order.len() < parts.len() {
        return Err(
            "it refers to itself without an end; put `properties` or `items` between".to_owned()
        );
    }
    let mut places = vec![0; parts.len()];
    for (place, at) in order.iter().enumerate() {
        places.get_mut(*at).into_iter().for_each(|it| *it = place);
    }
    let moved = |all: Vec<usize>| all.iter().filter_map(|at| places.get(*at).copied()).collect();
    let mut parts: Vec<(usize, Part)> = places.iter().copied().zip(parts).collect();
    parts.sort_by_key(|(place, _)| *place);
    Ok(parts
        .into_iter()
        .map(|(_, Part { same, either, besides, repeats })| Part {
            same: moved(same),
            either: moved(either),
            besides: moved(besides),
            repeats,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chain(length: usize, end: &Value) -> Value {
        let mut parts = Map::new();
        for at in 0..length {
            let next = json!({"$ref": format!("#/$defs/{}", at + 1)});
            parts.insert(at.to_string(), json!({"allOf": [next.clone(), next]}));
        }
        parts.insert(length.to_string(), end.clone());
        json!({"$defs": parts, "$ref": "#/$defs/0"})
    }

    #[test]
    fn schema_without_end_is_refused() {
        let straight = |length| {
            let mut schema = chain(length, &json!({}));
            for part in schema["$defs"].as_object_mut().unwrap().values_mut() {
                part.get_mut("allOf")
                    .into_iter()
                    .for_each(|it| drop(it.as_array_mut().unwrap().pop()));
            }
            schema
        };
        for (schema, fault) in [
            (json!({"$ref": "#"}), Some("without an end")),
            (json!({"$anchor": "x", "not": {"$ref": "#x"}}), Some("without an end")),
            (json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}), None),
            (chain(40, &json!({})), Some("10000")),
            (
                json!({"items": {"properties": {"a": true}}, "$defs": {"b": {"$id": "b"}}}),
                Some("$id"),
            ),
            (chain(8, &json!({})), None),
            (straight(60), None),
            (straight(64), Some("128")),
            (json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}), Some("within")),
            (json!({"$id": "https://a.b/c", "items": {"$ref": "https://a.b/c#"}}), None),
            (json!({"type": "nmber", "examples": [{"id": "b"}]}), None),
        ] {
            let said = SchemaShape::of(&schema).err();
            let as_wanted = match (&said, fault) {
                (Some(said), Some(fault)) => said.contains(fault),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            assert!(as_wanted, "{schema}: {said:?}");
        }
    }

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inner, _| json!([inner]))
    }

    #[test]
    fn deep_deliverable_is_checked_where_that_ends() {
        let twice = json!({"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]});
        let list = json!({"items": {"$ref": "#"}, "prefixItems": [{"$ref": "#"}]});
        for (schema, depth, fits) in [
            (&twice, 10, true),
            (&twice, 60, false),
            (&list, 120, true),
            (&chain(2, &list), 3, true),
            (&json!({"items": {"unevaluatedItems": {"$ref": "#"}}}), 60, false),
        ] {
            let fault = SchemaShape::of(schema).unwrap().fault(&nested(depth));
            assert_eq!(fault.is_none(), fits, "{schema} {depth}: {fault:?}");
        }
    }
}
