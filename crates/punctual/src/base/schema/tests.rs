//! Values that fit a schema, and the problems of schemas.

use super::*;
use serde_json::json;

fn schema(value: &Value) -> Schema {
    let mut problems = Problems::default();
    let read = Schema::read(value, "schema", &mut problems);
    read.unwrap_or_else(|| panic!("{value}: {problems}"))
}

fn said(schema: &Value, value: &Value) -> String {
    let mut problems = Problems::default();
    self::schema(schema).check(value, "payload", &mut problems);
    problems.to_string()
}

/// PRD-18: a payload fits, or each problem is reported with its path.
#[test]
fn prd_18_values_fit_a_schema_or_are_told() {
    let booking = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Booking",
        "type": "object", "required": ["bookingId", "guest"], "properties": {
            "bookingId": {"type": ["string", "integer"]},
            "guest": {"type": "object", "required": ["phone"], "additionalProperties": false,
                "properties": {"phone": {"type": "string", "pattern": "^\\+"}, "email": {"format": "email"}}},
            "nights": {"type": "integer", "minimum": 1, "exclusiveMaximum": 100},
            "checkIn": {"format": "date"}, "at": {"format": "date-time"},
            "status": {"enum": ["new", "paid"]}, "v": {"const": 1},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
            "extra": {"type": "object", "additionalProperties": {"type": "number"}},
            "either": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}}});
    let with = |name: &str, value: Value| {
        let mut payload = json!({"bookingId": "b1", "guest": {"phone": "+964"}});
        payload[name] = value;
        payload
    };
    let table = [
        (with("bookingId", json!(7)), ""),
        (with("nights", json!(3.0)), ""),
        (with("unknown", json!([1])), ""),
        (with("either", json!(null)), ""),
        (with("v", json!(1.0)), ""),
        (with("checkIn", json!("2026-05-14")), ""),
        (json!([]), "payload: must be an object, not a list"),
        (json!({"guest": {"phone": "+"}}), "payload.bookingId: is missing"),
        (
            with("bookingId", json!(true)),
            "payload.bookingId: must be a string or a whole number, not a boolean",
        ),
        (with("guest", json!({"phone": "964"})), "payload.guest.phone: does not match the pattern ^\\+"),
        (
            with("guest", json!({"phone": "+", "fax": 1})),
            "payload.guest.fax: is not a field that the schema allows",
        ),
        (with("guest", json!({})), "payload.guest.phone: is missing"),
        (with("nights", json!(1.5)), "payload.nights: must be a whole number, not a number"),
        (with("nights", json!(0)), "payload.nights: must be at least 1"),
        (with("nights", json!(100)), "payload.nights: must be less than 100"),
        (with("checkIn", json!("14.05.2026")), "payload.checkIn: must be a date such as 2026-05-14"),
        (with("at", json!("noon")), "payload.at: must be a time such as 2026-05-14T05:13:00Z"),
        (with("status", json!("old")), "payload.status: must be one of \"new\", \"paid\""),
        (with("v", json!(2)), "payload.v: must be one of 1"),
        (
            with("tags", json!(["a", 1, "long"])),
            "payload.tags: has 3 items, at most 2 are allowed; \
            payload.tags[1]: must be a string, not a number; \
            payload.tags[2]: has 4 characters, at most 3 are allowed",
        ),
        (with("extra", json!({"a": 1, "b": "x"})), "payload.extra.b: must be a number, not a string"),
        (with("either", json!("x")), "payload.either: fits none of the forms that the schema allows (anyOf)"),
        (
            with("guest", json!({"phone": "+".repeat(1_001)})),
            "payload.guest.phone: has 1001 characters: too long for its pattern",
        ),
    ];
    for (payload, want) in table {
        assert_eq!(said(&booking, &payload), want, "{payload}");
    }
}

/// PRD-18: an unknown keyword is refused, so that no author relies on it.
#[test]
fn prd_18_a_bad_schema_is_told() {
    let deep = (0..40).fold(json!({}), |inner, _| json!({"items": inner}));
    let wide: Value = (0..2_000).map(|n| (n.to_string(), json!({}))).collect();
    let table = [
        (json!([]), "schema: must be an object with"),
        (json!({"typ": "object"}), "schema.typ: `typ` is not a field; did you mean `type`?"),
        (json!({"type": "text"}), "schema.type: `text` is not a type"),
        (json!({"type": ["string", 3]}), "schema.type: `3` is not a type"),
        (json!({"$ref": "#/x"}), "schema.$ref: `$ref` is not a field"),
        (json!({"properties": []}), "schema.properties: must be an object of schemas by name"),
        (json!({"properties": {"a": {"minimum": "x"}}}), "schema.properties.a.minimum: must be a number"),
        (json!({"items": 5}), "schema.items: must be an object"),
        (json!({"required": "a"}), "schema.required: must be a list"),
        (json!({"required": [1]}), "schema.required[0]: must be a string"),
        (json!({"pattern": "("}), "schema.pattern: is not a pattern that can be used"),
        (json!({"pattern": "a".repeat(251)}), "schema.pattern: is longer than 250 bytes"),
        (json!({"format": "ipv4"}), "schema.format: `ipv4` is not checked here; known are date"),
        (json!({"minLength": -1}), "schema.minLength: must be a whole number"),
        (json!({"enum": []}), "schema.enum: is empty"),
        (json!({"anyOf": [{"type": "x"}]}), "schema.anyOf[0].type: `x` is not a type"),
        (json!({"additionalProperties": {"type": "x"}}), "schema.additionalProperties.type"),
        (deep, "is nested deeper than 20"),
        (json!({"properties": wide}), "schema: has more than 1000 schemas in it"),
    ];
    for (schema, want) in table {
        let mut problems = Problems::default();
        assert!(Schema::read(&schema, "schema", &mut problems).is_none(), "{schema}");
        assert!(problems.to_string().contains(want), "{want}: {problems}");
    }
}

/// PRD-18: a silly payload gets a short answer.
#[test]
fn prd_18_problems_are_bounded() {
    let form = json!({"items": {"type": "string"}, "additionalProperties": false});
    let many = schema(&form);
    for value in [json!(vec![1; 10_000]), (0..10_000).map(|n| (n.to_string(), json!(1))).collect()] {
        let mut problems = Problems::default();
        many.check(&value, "", &mut problems);
        assert_eq!(problems.0.len(), limits::SCHEMA_PROBLEMS_MAX);
    }
    let named =
        schema(&json!({"properties": {"a": {"properties": {"b": {}}}}, "additionalProperties": false}));
    assert_eq!((named.names(), named.is_closed()), (vec!["a.b".to_owned(), "a".to_owned()], true));
}
