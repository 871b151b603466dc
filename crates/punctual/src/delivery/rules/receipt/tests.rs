use super::*;

/// NTF-16: a delivery never goes back, whatever comes late.
#[test]
fn ntf_16_a_receipt_never_takes_a_delivery_back() {
    use DeliveryStatus as D;
    use ReceiptStatus as R;
    // The status before, then the status after: delivered, read, bounced, failed, stopped, resumed.
    let (up, down) = (Some(D::Delivered), Some(D::Failed));
    let table = [
        (D::Pending, [None; 6]),
        (D::Sent, [up, up, down, down, None, None]),
        (D::Delivered, [None; 6]),
        (D::Failed, [None; 6]),
        (D::Skipped, [None; 6]),
        (D::Uncertain, [up, up, down, down, None, None]),
    ];
    for (stands, want) in table {
        let found = R::ALL.map(|told| after(stands, told));
        assert_eq!(found, want, "{stands:?}");
    }
    // So the order of any two does not matter, but for which of good and bad news came first.
    for first in R::ALL {
        for second in R::ALL {
            let once = after(D::Sent, first).unwrap_or(D::Sent);
            let twice = after(once, second).unwrap_or(once);
            if once != D::Sent {
                assert_eq!(twice, once, "{first:?}, then {second:?}");
            }
        }
    }
}

/// NTF-16: only what says so for good suppresses an address.
#[test]
fn ntf_16_what_suppresses() {
    let found = ReceiptStatus::ALL.map(ReceiptStatus::suppresses);
    assert_eq!(
        found,
        [None, None, Some(SuppressionReason::HardBounce), None, Some(SuppressionReason::Stop), None]
    );
    for status in ReceiptStatus::ALL {
        assert_eq!(ReceiptStatus::from_word(status.word()), Some(status));
    }
}

/// NTF-16: the same news has the same key; another STOP, months later, is not the first one again.
#[test]
fn ntf_16_keys_of_news() {
    let one = Receipt {
        occurred_at: None,
        message_id: Some("SM1".into()),
        address: Some("+1".into()),
        status: ReceiptStatus::Delivered,
        said: "delivered".into(),
        error: None,
        event_id: None,
    };
    let key = one.dedup_key();
    assert_eq!(Receipt { error: Some("x".into()), ..one.clone() }.dedup_key(), key);
    for other in [
        Receipt { message_id: Some("SM2".into()), ..one.clone() },
        Receipt { status: ReceiptStatus::Read, ..one.clone() },
        Receipt { said: "Delivered".into(), ..one.clone() },
        Receipt { event_id: Some("e".into()), ..one.clone() },
    ] {
        assert_ne!(other.dedup_key(), key, "{other:?}");
    }
    let stop = Receipt { message_id: None, status: ReceiptStatus::Stopped, ..one };
    assert_eq!(stop.dedup_key(), None);
    assert!(Receipt { event_id: Some("SM9".into()), ..stop }.dedup_key().is_some());
}

/// NTF-16: looks for an early receipt's message are ever farther apart, and end.
#[test]
fn ntf_16_looks_for_a_message_end() {
    let (mut age, mut looks) = (Duration::ZERO, 0);
    while let Some(wait) = next_lookup_delay(age) {
        assert!(wait >= RECEIPT_LOOK_MIN);
        age += wait;
        looks += 1;
    }
    assert!((8..=14).contains(&looks), "{looks} looks");
    assert!(age >= RECEIPT_KEPT && age <= RECEIPT_KEPT * 2, "{age:?}");
}

/// NTF-16: the kept error of a mail server does not show the address, and no database refuses a text.
#[test]
fn ntf_16_what_is_kept_of_a_receipt() {
    let receipt = Receipt {
        occurred_at: None,
        message_id: Some("m\0-1".into()),
        address: Some("ada@example.org".into()),
        status: ReceiptStatus::Bounced,
        said: "bounce\0".into(),
        error: Some("550 5.1.1 <ada@example.org>: no such user".into()),
        event_id: None,
    };
    let kept = receipt.sanitize();
    assert_eq!((kept.message_id.as_deref(), kept.said.as_str()), (Some("m-1"), "bounce"));
    let error = kept.error.unwrap();
    assert!(!error.contains("ada@example.org") && error.starts_with("550 5.1.1 <"), "{error}");
}

/// NTF-18
#[test]
fn ntf_18_only_news_that_is_not_a_repetition_lifts_an_opt_out() {
    let [at, now, after_now] = [7, 10, 11].map(Timestamp::from_micros);
    let table = [
        (ReceiptStatus::Resumed, Some(at), Some("e"), Some(at)),
        (ReceiptStatus::Resumed, Some(at), None, Some(at)),
        (ReceiptStatus::Resumed, Some(Timestamp::from_micros(99)), None, Some(now)),
        (ReceiptStatus::Resumed, None, Some("e"), Some(after_now)),
        (ReceiptStatus::Resumed, None, None, None),
        (ReceiptStatus::Stopped, Some(at), Some("e"), None),
        (ReceiptStatus::Delivered, Some(at), Some("e"), None),
    ];
    for (status, occurred_at, event_id, lifts_before) in table {
        let receipt = Receipt {
            message_id: None,
            address: Some("+1".into()),
            status,
            said: String::new(),
            error: None,
            event_id: event_id.map(str::to_owned),
            occurred_at,
        };
        assert_eq!(receipt.lifts_before(now), lifts_before, "{receipt:?}");
    }
}
