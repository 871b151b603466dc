//! The components by themselves: names that stand once, and parameters that are described as what they are.

use super::{COMPONENTS, OPERATIONS};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// JSON in which no object has a key twice. Other readers keep the last of two and drop the first unseen.
#[derive(Debug)]
struct Distinct(Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Distinct(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = serde_json::Map::new();
        while let Some((name, Distinct(value))) = entries.next_entry::<String, Distinct>()? {
            if all.contains_key(&name) {
                return Err(A::Error::custom(format!("two values of one object are called `{name}`")));
            }
            all.insert(name, value);
        }
        Ok(all.into())
    }
}

fn components() -> Value {
    serde_json::from_str::<Distinct>(COMPONENTS).unwrap_or_else(|error| panic!("components.json: {error}")).0
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let said = serde_json::from_str::<Distinct>(r#"{"a": [{"To": 1, "from": 2, "To": 3}]}"#).unwrap_err();
    assert!(said.to_string().contains("two values of one object are called `To`"), "{said}");
    let plain = r#"{"a": [{"b": 1}, {"b": -2.5}, null, true, "b"], "b": {}}"#;
    let read: Distinct = serde_json::from_str(plain).unwrap();
    assert_eq!(read.0, serde_json::from_str::<Value>(plain).unwrap());
}

/// What is wrong with the description of a parameter of this schema.
fn misfit(is_time: bool, description: &str) -> Option<&'static str> {
    let words: BTreeSet<&str> = description.split(|c: char| !c.is_ascii_alphabetic()).collect();
    let says_time = ["time", "moment"].iter().any(|word| words.contains(word));
    let says_address = ["address", "recipient", "channel"].iter().any(|word| words.contains(word));
    match (is_time, says_time) {
        _ if description.is_empty() => Some("has no description"),
        (true, false) => Some("is a time, and its description does not say so"),
        (true, true) if says_address => Some("is a time, and its description speaks of something else"),
        (false, true) if description.contains(" this time") || description.contains(" this moment") => {
            Some("is no time, and its description speaks of one")
        }
        _ => None,
    }
}

#[test]
fn every_parameter_is_described_as_what_it_is() {
    assert!(misfit(true, "Only to this address.").is_some(), "a description of another parameter is caught");
    assert!(misfit(false, "Before this time.").is_some(), "and so it is the other way round");
    let components = components();
    let used: BTreeSet<&str> = OPERATIONS.iter().flat_map(|o| o.query.iter().copied()).collect();
    for (component, parameter) in components["parameters"].as_object().unwrap() {
        let is_time = parameter["schema"]["$ref"] == "#/components/schemas/Time";
        let wrong = misfit(is_time, parameter["description"].as_str().unwrap_or_default());
        assert_eq!(wrong, None, "{component}: {parameter}");
        let is_header = parameter["in"] == "header";
        assert!(is_header || used.contains(component.as_str()), "no operation takes {component}");
    }
}

#[test]
fn no_operation_takes_two_parameters_of_one_name() {
    let components = components();
    for operation in OPERATIONS {
        let mut names = BTreeSet::new();
        for component in operation.query {
            let name = components["parameters"][component]["name"].as_str();
            let name = name.unwrap_or_else(|| panic!("{}: there is no {component}", operation.route));
            assert!(names.insert(name), "{}: `{name}` stands twice", operation.route);
        }
    }
}
