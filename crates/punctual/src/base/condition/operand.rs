//! Reading what a comparison compares with: each operator needs a value of its own form.

use crate::base::condition::Operator;
use crate::base::condition::leaf::{Pattern, Test};
use crate::base::condition::order::Limit;
use crate::base::condition::read::Reader;
use crate::base::document::kind;
use crate::base::limits;
use serde_json::Value;
use std::ops::Bound::{Excluded, Included, Unbounded};

impl Reader<'_> {
    pub(crate) fn test(&mut self, op: Operator, value: Option<&Value>, place: &str) -> Option<Test> {
        if matches!(op, Operator::Exists | Operator::NotExists) {
            return self.nothing(op, value, place);
        }
        let Some(value) = value else {
            self.tell(place, format!("is missing; `{}` needs {}", op.word(), needs(op)));
            return None;
        };
        match op {
            Operator::Equal | Operator::NotEqual => self.scalar(op, value, place).map(Test::Equal),
            Operator::Contains => {
                self.searches += 1;
                self.scalar(op, value, place).map(Test::Contains)
            }
            Operator::In | Operator::NotIn => self.list(op, value, place).map(Test::In),
            Operator::StartsWith => self.text(op, value, place).map(Test::StartsWith),
            Operator::EndsWith => self.text(op, value, place).map(Test::EndsWith),
            Operator::Matches => self.pattern(value, place).map(Test::Matches),
            Operator::Between => self.range(value, place),
            _ => {
                let limit = self.limit(op, value, place)?;
                Some(match op {
                    Operator::Less => Test::Range(Unbounded, Excluded(limit)),
                    Operator::AtMost => Test::Range(Unbounded, Included(limit)),
                    Operator::Greater => Test::Range(Excluded(limit), Unbounded),
                    _ => Test::Range(Included(limit), Unbounded),
                })
            }
        }
    }

    fn nothing(&mut self, op: Operator, value: Option<&Value>, place: &str) -> Option<Test> {
        if value.is_none_or(Value::is_null) {
            return Some(Test::Exists);
        }
        let other = if op == Operator::Exists { "notExists" } else { "exists" };
        self.tell(
            place,
            format!("must not be there: `{}` needs no value; for the opposite use {other}", op.word()),
        );
        None
    }

    fn wrong(&mut self, op: Operator, value: &Value, place: &str) {
        let hint = match value {
            Value::Null => "; to ask whether something is there, use exists or notExists",
            Value::Array(_) if matches!(op, Operator::Equal) => "; to compare with several values, use in",
            Value::Array(_) if matches!(op, Operator::NotEqual) => {
                "; to compare with several values, use notIn"
            }
            Value::Array(_) if matches!(op, Operator::Contains) => {
                "; to look for several values, put one contains for each into an any"
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) if matches!(op, Operator::In) => {
                "; to compare with one value, use =="
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) if matches!(op, Operator::NotIn) => {
                "; to compare with one value, use !="
            }
            _ => "",
        };
        self.tell(place, format!("must be {}, for `{}`; it is {}{hint}", needs(op), op.word(), kind(value)));
    }

    fn scalar(&mut self, op: Operator, value: &Value, place: &str) -> Option<Value> {
        match value {
            Value::Bool(_) | Value::Number(_) => Some(value.clone()),
            Value::String(_) => self.text(op, value, place).map(Value::String),
            _ => {
                self.wrong(op, value, place);
                None
            }
        }
    }

    fn text(&mut self, op: Operator, value: &Value, place: &str) -> Option<String> {
        let Value::String(text) = value else {
            self.wrong(op, value, place);
            return None;
        };
        if text.len() > limits::CONDITION_TEXT_BYTES_MAX {
            let (bytes, most) = (text.len(), limits::CONDITION_TEXT_BYTES_MAX);
            self.tell(place, format!("has {bytes} bytes; a string to compare with has at most {most}"));
            return None;
        }
        Some(text.clone())
    }

    fn limit(&mut self, op: Operator, value: &Value, place: &str) -> Option<Limit> {
        match value {
            Value::Number(_) => Some(Limit::new(value.clone())),
            Value::String(_) => self.text(op, value, place).map(|text| Limit::new(Value::String(text))),
            _ => {
                self.wrong(op, value, place);
                None
            }
        }
    }

    fn list(&mut self, op: Operator, value: &Value, place: &str) -> Option<Vec<Value>> {
        let Value::Array(items) = value else {
            self.wrong(op, value, place);
            return None;
        };
        if items.len() > limits::CONDITION_LIST_ITEMS_MAX {
            let (count, most) = (items.len(), limits::CONDITION_LIST_ITEMS_MAX);
            self.tell(place, format!("has {count} items; a list has at most {most}"));
            return None;
        }
        self.items += items.len();
        let read = |(n, item)| self.item(op, item, &format!("{place}[{n}]"));
        let items: Vec<Option<Value>> = items.iter().enumerate().map(read).collect();
        items.into_iter().collect()
    }

    fn item(&mut self, op: Operator, item: &Value, place: &str) -> Option<Value> {
        if matches!(item, Value::Null | Value::Array(_) | Value::Object(_)) {
            let hint = if item.is_null() {
                "; nothing is equal to null, so ask with exists or notExists"
            } else {
                ""
            };
            self.tell(place, format!("must be a string, number or boolean; it is {}{hint}", kind(item)));
            return None;
        }
        self.scalar(op, item, place)
    }

    fn range(&mut self, value: &Value, place: &str) -> Option<Test> {
        let Some([from, to]) =
            value.as_array().and_then(|ends| <&[Value; 2]>::try_from(ends.as_slice()).ok())
        else {
            self.tell(
                place,
                match value {
                    Value::Array(ends) => {
                        format!("must have two items, the least and the most; it has {}", ends.len())
                    }
                    other => {
                        format!("must be {}, for `between`; it is {}", needs(Operator::Between), kind(other))
                    }
                },
            );
            return None;
        };
        let from_limit = self.limit(Operator::AtLeast, from, &format!("{place}[0]"));
        let to_limit = self.limit(Operator::AtMost, to, &format!("{place}[1]"));
        let (from_limit, to_limit) = (from_limit?, to_limit?);
        if from.is_string() != to.is_string() {
            self.tell(place, format!("must be two of a kind; it is {} and {}", kind(from), kind(to)));
            return None;
        }
        Some(Test::Range(Included(from_limit), Included(to_limit)))
    }

    fn pattern(&mut self, value: &Value, place: &str) -> Option<Pattern> {
        let Value::String(text) = value else {
            self.wrong(Operator::Matches, value, place);
            return None;
        };
        if text.len() > limits::CONDITION_PATTERN_BYTES_MAX {
            let (bytes, most) = (text.len(), limits::CONDITION_PATTERN_BYTES_MAX);
            self.tell(place, format!("has {bytes} bytes; a pattern has at most {most}"));
            return None;
        }
        match Pattern::new(text) {
            Ok(pattern) => {
                self.compiled_bytes += pattern.compiled_bytes;
                Some(pattern)
            }
            Err(said) => {
                self.tell(place, said);
                None
            }
        }
    }
}

fn needs(op: Operator) -> &'static str {
    match op {
        Operator::Equal | Operator::NotEqual | Operator::Contains => "a string, number or boolean",
        Operator::Less | Operator::AtMost | Operator::Greater | Operator::AtLeast => "a string or number",
        Operator::In | Operator::NotIn => "a list of strings, numbers or booleans",
        Operator::StartsWith | Operator::EndsWith => "a string",
        Operator::Matches => "a string with a pattern such as ^[A-Z]{3}",
        Operator::Between => "a list of two strings or two numbers, such as [1, 5]",
        Operator::Exists | Operator::NotExists => "no value",
    }
}
