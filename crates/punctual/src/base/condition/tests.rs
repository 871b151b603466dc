use super::*;
use crate::base::error::Problems;

fn read(document: &Value) -> Result<Condition, Problems> {
    let mut problems = Problems::default();
    let condition = Condition::read(document, "filter", &mut problems);
    assert_eq!(condition.is_none(), !problems.0.is_empty(), "{document}: {problems}");
    condition.ok_or(problems)
}

fn leaf(op: &str, value: Value) -> Condition {
    let document = if value.is_null() {
        json!({"questionId": "x", "op": op})
    } else {
        json!({"questionId": "x", "op": op, "value": value})
    };
    read(&document).unwrap_or_else(|problems| panic!("{document}: {problems}"))
}

fn facts(found: &Value) -> Facts<'static> {
    let mut facts = Facts::default();
    facts.insert("x", found.clone());
    facts
}

/// TRG-4: each operator, with values for which it holds and values for which it does not.
#[test]
fn trg_4_operators_hold_as_they_say() {
    let table = [
        ("==", json!("GR"), vec![json!("GR")], vec![json!("gr"), json!("PM"), json!(["GR"]), json!(1)]),
        ("==", json!(1), vec![json!(1), json!(1.0)], vec![json!("1"), json!(true), json!(1.5)]),
        ("==", json!(true), vec![json!(true)], vec![json!(false), json!(1), json!("true")]),
        ("==", json!("2024-01-01"), vec![json!("2024-01-01")], vec![json!("2024-01-01T00:00:00Z")]),
        ("!=", json!(1), vec![json!(2), json!("1"), json!([1]), json!({})], vec![json!(1), json!(1.0)]),
        (
            "<",
            json!(3),
            vec![json!(2), json!(-1e300)],
            vec![json!(3), json!(4), json!("2"), json!(false), json!([1])],
        ),
        ("<=", json!(3), vec![json!(2), json!(3.0)], vec![json!(3.000001), json!("3")]),
        (">", json!(9007199254740992u64), vec![json!(9007199254740993u64)], vec![json!(9007199254740992.0)]),
        (">=", json!("b"), vec![json!("b"), json!("ba"), json!("é")], vec![json!("B"), json!("a"), json!(9)]),
        ("<", json!("10"), vec![json!("1"), json!("0")], vec![json!("9"), json!("10")]),
        (
            "<",
            json!("2024-01-01T12:00:00Z"),
            vec![json!("2024-01-01T14:00:00+03:00"), json!("2024-01-01")],
            vec![json!("2024-01-01T12:00:00.000Z"), json!("2024-01-01T13:00:00+01:00")],
        ),
        (
            "<=",
            json!("2024-01-01T12:00:00Z"),
            vec![json!("2024-01-01T15:00:00+03:00"), json!("2023")],
            vec![json!("later")],
        ),
        (
            "between",
            json!([1, 5]),
            vec![json!(1), json!(5), json!(2.5)],
            vec![json!(0.9), json!(5.1), json!("3")],
        ),
        (
            "between",
            json!(["2024-01-01", "2024-01-31"]),
            vec![json!("2024-01-31T02:00:00+02:00")],
            vec![json!("2024-01-31T00:00:01Z"), json!("2023-12-31")],
        ),
        (
            "between",
            json!(["a", "c"]),
            vec![json!("a"), json!("bzzz"), json!("c")],
            vec![json!("ca"), json!("")],
        ),
        ("between", json!([5, 1]), vec![], vec![json!(1), json!(3), json!(5)]),
        (
            "in",
            json!(["a", 1, true]),
            vec![json!("a"), json!(1.0), json!(true)],
            vec![json!("A"), json!("1"), json!(false), json!(["a"])],
        ),
        ("in", json!([]), vec![], vec![json!("a")]),
        ("notIn", json!(["a", 1]), vec![json!("b"), json!("1"), json!(["a"])], vec![json!("a"), json!(1)]),
        (
            "contains",
            json!("b"),
            vec![json!("abc"), json!(["a", "b"])],
            vec![json!("ABC"), json!(["abc"]), json!({"b": 1}), json!(5)],
        ),
        ("contains", json!(1), vec![json!([1.0, 2])], vec![json!("1"), json!(["1"]), json!(1), json!([[1]])]),
        ("contains", json!(""), vec![json!(""), json!("a")], vec![json!([]), json!(["a"])]),
        (
            "startsWith",
            json!("+964"),
            vec![json!("+964 770"), json!("+964")],
            vec![json!("00964"), json!(964), json!(["+964"])],
        ),
        ("endsWith", json!("@x.org"), vec![json!("a@x.org")], vec![json!("a@x.org "), json!("x.org")]),
        (
            "matches",
            json!("^[A-Z]{2}$"),
            vec![json!("GR")],
            vec![json!("GRX"), json!("gr"), json!(12), json!(["GR"])],
        ),
        ("matches", json!("b+"), vec![json!("abbc")], vec![json!("ac"), json!("")]),
        ("exists", Value::Null, vec![json!(""), json!(0), json!(false), json!([]), json!({})], vec![]),
        ("notExists", Value::Null, vec![], vec![json!(""), json!(0), json!(false)]),
    ];
    for (op, value, yes, no) in table {
        let condition = leaf(op, value.clone());
        for (found, want) in yes.iter().map(|v| (v, true)).chain(no.iter().map(|v| (v, false))) {
            assert_eq!(condition.holds(&facts(found)), want, "{found} {op} {value}");
        }
        let want = matches!(op, "!=" | "notIn" | "notExists");
        assert_eq!(condition.holds(&Facts::default()), want, "missing {op} {value}");
        assert_eq!(condition.holds(&facts(&Value::Null)), want, "null {op} {value}");
    }
    assert_eq!(Operator::ALL.len(), 15);
}

/// TRG-4: groups, also empty ones.
#[test]
fn trg_4_groups_combine() {
    let (yes, no) = (json!({"questionId": "x", "op": "exists"}), json!({"questionId": "y", "op": "exists"}));
    let table = [
        (json!({"all": [yes, yes]}), true),
        (json!({"all": [yes, no]}), false),
        (json!({"all": []}), true),
        (json!({"any": [no, yes]}), true),
        (json!({"any": [no, no]}), false),
        (json!({"any": []}), false),
        (json!({"not": no}), true),
        (json!({"not": {"not": {"all": [{"any": [no, {"not": no}]}, yes]}}}), true),
    ];
    for (document, want) in table {
        let condition = read(&document).unwrap();
        assert_eq!(condition.holds(&facts(&json!(1))), want, "{document}");
        assert_eq!(condition.to_json(), document);
    }
    let document = json!({"any": [yes, {"all": [no, {"not": yes}]}]});
    assert_eq!(read(&document).unwrap().paths(), ["x", "y", "x"]);
}

fn x(op: &str, value: Value) -> Value {
    json!({"questionId": "x", "op": op, "value": value})
}

fn refused(table: Vec<(Value, &str)>) {
    for (document, want) in table {
        let said = read(&document).expect_err(&document.to_string()).to_string();
        assert!(said.contains(want), "{document}\nshould say: {want}\nbut says:   {said}");
    }
}

/// TRG-3: a value that the operator cannot use is named by its path, with a sentence that helps.
#[test]
fn trg_3_wrong_values_say_what_would_be_right() {
    let long = "x".repeat(limits::CONDITION_TEXT_BYTES_MAX + 1);
    let pattern = "filter.value: is not a pattern that can be used: ";
    refused(vec![
        (
            json!({"questionId": "x", "op": "=="}),
            "filter.value: is missing; `==` needs a string, number or boolean",
        ),
        (x("==", json!(null)), "to ask whether something is there, use exists"),
        (x("==", json!(["a"])), "it is a list; to compare with several values, use in"),
        (x("==", json!({})), "it is an object"),
        (x("==", json!(long)), "filter.value: has 513 bytes"),
        (x("<", json!(true)), "filter.value: must be a string or number, for `<`; it is a boolean"),
        (x("in", json!("a")), "must be a list of strings, numbers or booleans, for `in`; it is a string"),
        (x("in", json!("a")), "to compare with one value, use =="),
        (x("notIn", json!(["a", null])), "filter.value[1]: must be a string, number or boolean; it is null"),
        (x("in", json!(vec![1; 1001])), "has 1001 items; a list has at most 1000"),
        (x("contains", json!(["a"])), "put one contains for each into an any"),
        (x("between", json!(3)), "must be a list of two strings or two numbers"),
        (x("between", json!([1])), "must have two items, the least and the most; it has 1"),
        (x("between", json!([1, "5"])), "must be two of a kind; it is a number and a string"),
        (x("between", json!([true, null])), "filter.value[1]: must be a string or number"),
        (x("matches", json!("(")), pattern),
        (x("matches", json!("(?=a)")), pattern),
        (x("matches", json!("(a{99}){99}")), pattern),
        (x("matches", json!("(?:){4294967295}")), pattern),
        (x("matches", json!("a".repeat(251))), "has 251 bytes; a pattern has at most 250"),
        (x("matches", json!(5)), "must be a string with a pattern"),
        (x("startsWith", json!(5)), "must be a string, for `startsWith`; it is a number"),
        (x("exists", json!(false)), "filter.value: must not be there: `exists` needs no value"),
        (x("exists", json!(false)), "for the opposite use notExists"),
    ]);
}

/// TRG-3: a document of the wrong form is reported with the place and the probable correction.
#[test]
fn trg_3_broken_conditions_say_where_and_what() {
    let good = json!({"questionId": "x", "op": "exists"});
    let long = "x".repeat(limits::FACT_PATH_BYTES_MAX + 1);
    let deep = (0..limits::CONDITION_DEPTH_MAX).fold(good.clone(), |inner, _| json!({ "not": inner }));
    refused(vec![
        (json!("x"), "filter: must be an object {questionId, op, value}, or one with all, any or not"),
        (json!(null), "it is null"),
        (json!({}), "filter.questionId: is missing; it is the path that is looked at"),
        (json!({}), "filter.op: is missing; it is one of == !="),
        (json!({"op": "exists"}), "filter.questionId: is missing"),
        (json!({"questionId": 5, "op": "exists"}), "filter.questionId: must be a path such as candidate"),
        (json!({"questionId": "", "op": "exists"}), "filter.questionId: is empty"),
        (json!({"questionId": long, "op": "exists"}), "a path has at most 512"),
        (x("=", json!(1)), "filter.op: `=` is not an operator; did you mean `==`? Known are == !="),
        (x("contain", json!(1)), "did you mean `contains`?"),
        (x("NOTIN", json!([])), "did you mean `notIn`?"),
        (x("resembles", json!(1)), "`resembles` is not an operator; known are == !="),
        (json!({"questionId": "x", "op": 1}), "filter.op: must be one of"),
        (
            json!({"questionId": "x", "op": "exists", "values": 1}),
            "filter.values: is not known here; did you mean `value`?",
        ),
        (
            json!({"questionId": "x", "op": "exists", "comment": 1}),
            "a comparison has questionId, op and value",
        ),
        (json!({"and": []}), "filter.and: is not known here; did you mean `all`?"),
        (json!({"all": good}), "filter.all: must be a list of conditions; it is an object"),
        (json!({"all": [], "any": []}), "filter.any: stands beside `all`, which stands alone"),
        (json!({"not": good, "op": "exists"}), "filter.op: stands beside `not`"),
        (json!({"all": [good, good, x("~", json!(1))]}), "filter.all[2].op: `~` is not"),
        (json!({"any": [{"not": {"all": [5]}}]}), "filter.any[0].not.all[0]: must be an object"),
        (deep, "is nested deeper than 16 levels"),
        (json!({"all": vec![good; 256]}), "filter: has more than 256 parts"),
        (json!({"any": vec![x("in", json!(vec![1; 1000])); 5]}), "filter: has more than 4000 items"),
        (json!({"any": vec![x("matches", json!("a{150}")); 3]}), "patterns that are too large together"),
    ]);
}

/// TRG-3: all problems are reported at once, up to a bound.
#[test]
fn trg_3_every_problem_is_told() {
    let document =
        json!({"all": [{"op": "=", "value": 1}, {"questionId": "x", "op": "in", "value": [null, {}]}, 7]});
    let Problems(problems) = read(&document).unwrap_err();
    let paths: Vec<&str> = problems.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "filter.all[0].questionId",
            "filter.all[0].op",
            "filter.all[1].value[0]",
            "filter.all[1].value[1]",
            "filter.all[2]"
        ]
    );
    let many = json!({"all": vec![json!({}); 200]});
    assert_eq!(read(&many).unwrap_err().0.len(), limits::CONDITION_PROBLEMS_MAX);
    let mut bare = Problems::default();
    assert!(Condition::read(&json!({"op": "exists"}), "", &mut bare).is_none());
    assert_eq!(bare.0[0].path, "questionId");
}

/// PRD-5: the comparison that decided, in words; with it, the whole explanation.
#[test]
fn an_explanation_says_what_decided() {
    let y = json!({"questionId": "y", "op": "exists"});
    let table = [
        (x("==", json!("GR")), json!("PM"), r#"skipped because x is "PM", not "GR""#),
        (x("==", json!("GR")), json!("GR"), r#"matched because x is "GR""#),
        (x("!=", json!("GR")), json!("PM"), r#"matched because x is "PM", not "GR""#),
        (x("!=", json!("GR")), json!("GR"), r#"skipped because x is "GR""#),
        (x("==", json!(5)), json!("5"), r#"skipped because x is "5", not 5"#),
        (x("<", json!(10)), json!(12), "skipped because x is 12, not less than 10"),
        (x(">=", json!(10)), json!(12), "matched because x is 12, at least 10"),
        (x("between", json!([1, 5])), json!(9), "skipped because x is 9, not between 1 and 5"),
        (
            x("in", json!([1, 2, 3, 4, 5, 6, 7])),
            json!(9),
            "skipped because x is 9, not one of 1, 2, 3, 4, 5 and 2 more",
        ),
        (x("notIn", json!(["a"])), json!("a"), r#"skipped because x is "a", one of "a""#),
        (
            x("contains", json!("q")),
            json!("abc"),
            r#"skipped because x is "abc", which does not contain "q""#,
        ),
        (x("startsWith", json!("a")), json!("abc"), r#"matched because x starts with "a""#),
        (x("matches", json!("^q")), json!("abc"), r#"skipped because x is "abc", which does not match "^q""#),
        (x("==", json!(1)), Value::Null, "skipped because x is missing"),
        (x("!=", json!(1)), Value::Null, "matched because x is missing"),
        (json!({"questionId": "x", "op": "notExists"}), json!(1), "skipped because x is there"),
        (json!({"all": [x("==", json!(1)), y]}), json!(1), "skipped because y is missing"),
        (json!({"all": [x("==", json!(1)), {"not": y}]}), json!(1), "matched because x is 1"),
        (json!({"any": [y, x("==", json!(1))]}), json!(1), "matched because x is 1"),
        (json!({"any": [{"all": []}, y]}), json!(1), "matched because it asks for nothing"),
        (json!({"not": x("==", json!(1))}), json!(1), "skipped because x is 1"),
        (
            x("matches", json!("^a*$")),
            json!("a".repeat(10_000)),
            "skipped because x is too long for `matches` to look through",
        ),
    ];
    for (document, found, want) in table {
        let (condition, facts) = (read(&document).unwrap(), facts(&found));
        let explanation = condition.explain(&facts);
        assert_eq!(explanation.to_string(), want, "{document}");
        assert_eq!(explanation.holds, condition.holds(&facts), "{document}");
    }
    let document = json!({"all": [x("==", json!(1)), {"not": y}]});
    let explanation = read(&document).unwrap().explain(&facts(&json!("z".repeat(300))));
    let findings = serde_json::to_value(&explanation).unwrap()["findings"].clone();
    let shown = format!("{}…", "z".repeat(200));
    assert_eq!(
        findings,
        json!([
            {"at": "all[0]", "questionId": "x", "op": "==", "wanted": 1, "found": shown, "held": false},
            {"at": "all[1].not", "questionId": "y", "op": "exists", "found": null, "held": false},
        ])
    );
}

/// TRG-4: how far `contains` and `matches` look depends on how many there are.
#[test]
fn trg_4_searches_share_their_bound() {
    let one = json!({"questionId": "x", "op": "contains", "value": "b"});
    let reach = |text: usize| json!(format!("{}b", "a".repeat(text - 1)));
    let (alone, ten) = (read(&one).unwrap(), read(&json!({"any": vec![one.clone(); 10]})).unwrap());
    assert!(alone.holds(&facts(&reach(100_000))) && !alone.holds(&facts(&reach(100_001))));
    assert!(ten.holds(&facts(&reach(10_000))) && !ten.holds(&facts(&reach(10_001))));
    let pattern = leaf("matches", json!("^.+$"));
    let chars = pattern.reach.pattern_chars;
    assert!(chars > 1_000, "a small pattern sees long texts, not only {chars} characters");
    assert!(pattern.holds(&facts(&json!("ä".repeat(chars)))), "characters count, not bytes");
    assert!(!pattern.holds(&facts(&json!("ä".repeat(chars + 1)))));
    let largest = leaf("matches", json!("[a-z]{140}"));
    assert!(largest.reach.pattern_chars >= 100, "the largest pattern still sees a hundred characters");
}

/// TRG-4: everything but null is there, an object with nothing in it, too.
#[test]
fn trg_4_everything_but_null_exists() {
    let payload = json!({"o": {}, "full": {"in": null}, "l": [], "s": "", "f": false, "z": 0, "n": null});
    let mut facts = Facts::default();
    facts.flatten("c", &payload).unwrap();
    let table = [
        ("c", true),
        ("c.o", true),
        ("c.full", true),
        ("c.l", true),
        ("c.s", true),
        ("c.f", true),
        ("c.z", true),
        ("c.n", false),
        ("c.full.in", false),
        ("c.none", false),
        ("c.o.none", false),
    ];
    for (path, there) in table {
        for (op, want) in [("exists", there), ("notExists", !there)] {
            let document = json!({"questionId": path, "op": op});
            let condition = Condition::read(&document, "", &mut Problems::default()).unwrap();
            assert_eq!(condition.holds(&facts), want, "{path} {op}");
        }
    }
    let equal = json!({"any": [{"questionId": "c.o", "op": "==", "value": "{}"},
        {"questionId": "c.full", "op": "in", "value": ["", 0, false]}]});
    assert!(!Condition::read(&equal, "", &mut Problems::default()).unwrap().holds(&facts));
}
