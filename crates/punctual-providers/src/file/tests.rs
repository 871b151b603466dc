use super::*;

const GOOD: &str = r#"
kind = "SMS"
address = "phone"
[settings]
token = { about = "the token", secret = true }
[request]
url = "https://api.example/send"
auth = { type = "bearer", token = "{{setting.token}}" }
[request.body]
json = { to = "{{to}}", text = "{{body}}" }
"#;

fn said(text: &str) -> String {
    ProviderFile::parse("x", text).err().map(|problems| problems.to_string()).unwrap_or_default()
}

/// NTF-13: a file is a provider.
#[test]
fn ntf_13_a_file_is_read() {
    let file = ProviderFile::parse("acme", GOOD).unwrap();
    assert_eq!((file.name(), file.title(), file.kind()), ("acme", "acme", "sms"));
    assert_eq!((file.address(), file.has_receipts()), (AddressForm::Phone, false));
    assert!(file.settings()[0].secret && file.settings()[0].required);
}

/// NTF-13: every shipped file is right, names its provider and says what its settings are for.
#[test]
fn ntf_13_every_shipped_file_is_right() {
    let catalogue = crate::Catalogue::shipped().unwrap();
    assert_eq!(catalogue.names().count(), 11);
    for name in catalogue.names() {
        let file = catalogue.get(name).unwrap();
        assert_ne!(file.title(), name, "{name} has no title");
        assert!(file.settings().iter().all(|setting| setting.about.len() > 5), "{name}");
        assert!(file.settings().iter().any(|setting| setting.secret), "{name} has no secret");
    }
}

/// NTF-4: a file says whether its provider recognises our key. A key that a body has as a reference is none.
#[test]
fn ntf_4_a_file_says_whether_its_provider_takes_the_key() {
    let takes = |text: &str| ProviderFile::parse("x", text).unwrap().takes_idempotency_key();
    let with = |line: &str| GOOD.replace("auth =", &format!("{line}\nauth ="));
    let in_body = |text: String| text.replace("text = ", "key = \"{{idempotencyKey}}\", text = ");
    let table = [
        (GOOD.to_owned(), false),
        (in_body(GOOD.to_owned()), false),
        (in_body(with("idempotency_body = false")), false),
        (in_body(with("idempotency_body = true")), true),
        (with("idempotency_header = \"Idempotency-Key\""), true),
        (with("idempotency_header = { name = \"Id\", value = \"{{idempotencyUuid}}\" }"), true),
    ];
    for (text, want) in table {
        assert_eq!(takes(&text), want, "{text}");
    }
    let without = "request.idempotency_body: is true, but no body has the key: write {{idempotencyKey}}";
    assert!(said(&with("idempotency_body = true")).contains(without));
    let catalogue = crate::Catalogue::shipped().unwrap();
    let keyed = catalogue.names().filter(|name| catalogue.get(name).unwrap().takes_idempotency_key());
    assert_eq!(keyed.collect::<Vec<_>>(), ["azure-email"]);
}

/// NTF-13: what is wrong with a file is told by its path, with what would be right.
#[test]
fn ntf_13_a_wrong_file_is_refused_with_what_would_be_right() {
    let table = [
        ("kind = \"SMS\"", "kind = \"smss\"", "kind: `smss` is not a kind of channel; did you mean `sms`?"),
        ("\"phone\"", "\"fax\"", "address: `fax` is not a form of address; known are phone, email, any"),
        ("token = {", "Token = {", "settings.Token: is not a name for a setting"),
        ("token = {", "fallback = {", "settings.fallback: is a name that every channel has already"),
        ("secret = true", "secret = 1", "settings.token.secret: must be true or false, not a number"),
        ("secret = true", "default = \"x\", required = true", "settings.token.required: has a default"),
        ("about = \"the token\", ", "", "settings.token.about: is missing"),
        (
            "https://",
            "http://",
            "request.url: must begin with https:// or with a setting that has `url = true`",
        ),
        ("https://api.example", "{{setting.token}}", "request.url: must begin with https://"),
        ("{{to}}", "{{too}}", "request.body.json.to: `too` is not a value of a message; did you mean `to`?"),
        (
            "{{setting.token}}",
            "{{setting.tokn}}",
            "request.auth.token: `setting.tokn` is not a value of a message",
        ),
        ("{{to}}", "{{to", "request.body.json.to: line 1, column 1: is not closed"),
        (
            "\"bearer\"",
            "\"beaver\"",
            "request.auth.type: `beaver` is not a kind of auth; did you mean `bearer`?",
        ),
        ("auth =", "method = \"GET\"\nauth =", "request.method: `GET` is not a method that sends"),
        ("auth =", "timeout = \"2m\"\nauth =", "request.timeout: must be more than 0s, and at most 18s"),
        ("auth =", "headers = { \"a b\" = \"x\" }\nauth =", "request.headers.a b: is not a header's name"),
        (
            "auth =",
            "headers = { Host = \"x\" }\nauth =",
            "request.headers.Host: is a header that is set for you",
        ),
        (
            "auth =",
            "headers = { X = \"a\\nb\" }\nauth =",
            "request.headers.X: has characters that a header cannot",
        ),
        ("json =", "form = {}\njson =", "request.body: must have either `form` or `json`"),
        ("json = {", "json = { \"$vlaue\" = \"to\", ", "request.body.json: `$vlaue` is not a special form"),
        (
            "json = {",
            "json = { x = { \"$each\" = \"template.params\" }, ",
            "request.body.json.x: has `$each`, but no",
        ),
        ("[request]", "[respons]\n[request]", "respons: `respons` is not a field; did you mean `response`?"),
        ("[request]", "x = 1\n[request]", "settings.x: must be an object with about, secret"),
        ("kind =", "kind = ", ""),
    ];
    for (from, to, want) in table {
        assert!(GOOD.contains(from), "{from}");
        let found = said(&GOOD.replace(from, to));
        assert!(if want.is_empty() { found.is_empty() } else { found.contains(want) }, "{to}: {found}");
        assert!(!found.contains('\n'), "{found}");
    }
    assert!(said("kind = ").contains("line 1: "), "{}", said("kind = "));
    assert!(said(&"#".repeat(100_000)).contains("is larger than 64 KiB"));
    let nothing = said("");
    for path in ["kind", "address", "request"] {
        assert!(nothing.contains(&format!("{path}: is missing")), "{nothing}");
    }
}

/// NTF-13, NTF-16: rules and receipts are held to their forms, too.
#[test]
fn ntf_13_rules_and_receipts_are_checked() {
    let twilio =
        "[receipt]\nverify = { type = \"twilio\", secret = \"{{setting.token}}\" }\n[[receipt.event]]";
    let (wordless, nameless) = (format!("{twilio}\nstatus = \"s\""), format!("{twilio}\nread = [\"r\"]"));
    let table = [
        ("[[classify]]\nclass = \"transient\"", "classify[0]: fits every answer: give it `status`"),
        ("[[classify]]\nstatus = 400", "classify[0].class: is missing"),
        ("[[classify]]\nstatus = 400\nclass = \"forever\"", "classify[0].class: `forever` is not a class"),
        (
            "[[classify]]\nstatus = [400, \"6xx\", 99]\nclass = \"unknown\"",
            "classify[0].status: `\"6xx\"` is not a status",
        ),
        ("[[classify]]\nstatus = \"409-400\"\nclass = \"unknown\"", "`\"409-400\"` is not a status"),
        ("[[classify]]\nstatus = 400\nclass = \"permanent\"\nretry_after = \"1s\"", "only what is transient"),
        ("[[classify]]\nstatus = 400\nclass = \"transient\"\nretry_after = \"25h\"", "must be at most 24h"),
        ("[[classify]]\nbody = { is = 7 }\nclass = \"unknown\"", "classify[0].body.path: is missing"),
        ("[[classify]]\nbody = { path = \"a\", is = [{}] }\nclass = \"unknown\"", "must be texts or numbers"),
        ("[receipt]", "receipt.verify: is missing"),
        (
            "[receipt]\nverify = { type = \"hmca\" }",
            "receipt.verify.type: `hmca` is no way to verify; did you mean `hmac`?",
        ),
        (
            "[receipt]\nverify = { type = \"hmac\", secret = \"{{setting.token}}\" }",
            "receipt.verify.header: is missing",
        ),
        (
            "[receipt]\nverify = { type = \"token\", secret = \"{{setting.token}}\" }",
            "needs either `header` or `query`",
        ),
        (&wordless, "receipt.event[0]: has no words"),
        (&nameless, "receipt.event[0]: must have `message_id` or `address`"),
    ];
    for (more, want) in table {
        let found = said(&format!("{GOOD}{more}"));
        assert!(found.contains(want), "{more}: {found}");
    }
}
