//! The components by themselves: types that have names of their own, and parameters that are described as
//! what they are.

use super::{OPERATIONS, document};
use crate::http::table;
use serde_json::Value;
use std::collections::BTreeSet;

fn components() -> Value {
    document(&table())["components"].take()
}

#[test]
fn no_two_types_have_one_name() {
    // The generator gives the second of two types `Entity` the name `Entity2`.
    for name in components()["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "two types are called as {name} is");
    }
    let mut known: BTreeSet<(&str, String)> = BTreeSet::new();
    for one in OPERATIONS.iter().flat_map(|operation| operation.query) {
        known.insert((one.component, format!("{one:?}")));
    }
    let names: BTreeSet<&str> = known.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.len(), known.len(), "a parameter has two forms");
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
    let used: BTreeSet<&str> = OPERATIONS.iter().flat_map(|o| o.query).map(|one| one.component).collect();
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
    for operation in OPERATIONS {
        let mut names = BTreeSet::new();
        for one in operation.query {
            assert!(names.insert(one.name), "{}: `{}` stands twice", operation.route, one.name);
        }
    }
}
