//! The public table of phone numbers.

use punctual_providers::PhoneNumber;
use serde_json::Value;

/// NTF-15: every case of the table, if it lies beside the repository.
#[test]
fn ntf_15_the_public_table_of_numbers() {
    let Some(folder) = std::env::var_os("PUNCTUAL_CONFORMANCE_DATA") else {
        println!("not run: PUNCTUAL_CONFORMANCE_DATA does not say where phones.json lies");
        return;
    };
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
