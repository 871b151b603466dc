//! The public table of phone numbers.

use punctual_providers::PhoneNumber;
use serde_json::Value;

/// NTF-15: every case of the table.
#[test]
#[ignore = "needs PUNCTUAL_CONFORMANCE_DATA"]
fn ntf_15_the_public_table_of_numbers_passes() {
    let folder = std::env::var_os("PUNCTUAL_CONFORMANCE_DATA");
    let folder = folder.expect("PUNCTUAL_CONFORMANCE_DATA should say where phones.json is");
    let path = std::path::Path::new(&folder).join("phones.json");
    let table: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let cases = table["cases"].as_array().unwrap();
    let mut wrong = Vec::new();
    for case in cases {
        let (e164, valid) = (case["e164"].as_str().unwrap(), case["valid"].as_bool().unwrap());
        let read = PhoneNumber::parse(e164);
        let right = match &read {
            Ok(number) => valid && number.as_str() == e164,
            Err(_) => !valid,
        };
        if !right {
            wrong.push(format!("{case}: {read:?}"));
        }
    }
    assert!(cases.len() > 300, "the table has only {} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
