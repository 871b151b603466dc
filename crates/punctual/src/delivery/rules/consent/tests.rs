//! Tables: whether, how and when a message may be sent.

use super::*;
use crate::base::error::Problems;
use crate::delivery::rules::consent::address::normal;
use crate::delivery::rules::consent::quiet::{QuietHours, QuietPreference};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Duration;

fn preferences(json: Value) -> RecipientPreferences {
    let mut problems = Problems::default();
    let read = RecipientPreferences::read(&json, &mut problems).unwrap();
    assert_eq!(problems.to_string(), "", "{json}");
    read
}

fn settings(json: Value) -> TenantSettings {
    let mut problems = Problems::default();
    let read = TenantSettings::read(&json, &mut problems).unwrap();
    assert_eq!(problems.to_string(), "", "{json}");
    read
}

fn house(json: Value) -> ConsentContext {
    ConsentContext { settings: settings(json), time_zone: "Asia/Baghdad".into() }
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn ask(channel: &'static str, kind: &'static str, now: &str) -> ConsentQuestion<'static> {
    ConsentQuestion { channel, kind, now: at(now), redirected: false, zone: None }
}

fn suppressed(all: &[(&str, &str, SuppressionReason)]) -> AddressConsent {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let scope = |channel: &str, kind: &str| ConsentScope { channel: some(channel), kind: some(kind) };
    let suppressed = all.iter().map(|(channel, kind, reason)| (scope(channel, kind), *reason)).collect();
    AddressConsent { suppressed, ..AddressConsent::default() }
}

const NOON: &str = "2026-05-14T09:00:00Z";

/// NTF-18: a suppression holds for its channel and kind, and the verdict names the gravest reason.
#[test]
fn ntf_18_a_suppressed_address_is_never_sent_to() {
    use SuppressionReason::{HardBounce, Manual, Stop, Unsubscribe};
    type Case<'a> =
        (&'a [(&'a str, &'a str, SuppressionReason)], &'a str, &'a str, Option<SuppressionReason>);
    let table: [Case<'_>; 10] = [
        (&[], "sms:twilio", "a", None),
        (&[("sms", "", Stop)], "sms:twilio", "a", Some(Stop)),
        (&[("sms", "", Stop)], "memory:sms-2", "a", Some(Stop)),
        (&[("sms", "", Stop)], "whatsapp:meta", "a", None),
        (&[("", "", Manual)], "whatsapp:meta", "a", Some(Manual)),
        (&[("", "news", Unsubscribe)], "email:smtp", "news", Some(Unsubscribe)),
        (&[("", "news", Unsubscribe)], "email:smtp", "receipt", None),
        (&[("email", "news", Unsubscribe)], "sms:twilio", "news", None),
        (&[("", "", Manual), ("email", "", HardBounce)], "email:smtp", "a", Some(HardBounce)),
        (&[("email", "", Unsubscribe), ("", "", Stop)], "memory:mail", "a", Some(Stop)),
    ];
    for (standing, channel, kind, reason) in table {
        let asked = ConsentQuestion { channel, kind, now: at(NOON), redirected: false, zone: None };
        let want = reason.map_or(ConsentDecision::Send, |reason| {
            ConsentDecision::Suppressed(ConsentRefusal::Suppressed(reason))
        });
        assert_eq!(decide(&asked, &suppressed(standing), &house(json!({}))), want, "{standing:?} {channel}");
    }
}

/// NTF-18: opt-outs by channel, by kind, and by both.
#[test]
fn ntf_18_an_opt_out_holds_for_its_channel_and_kind() {
    let preferences = preferences(json!({"optOuts":
        [{"channel": "SMS"}, {"kind": "news"}, {"channel": "email", "kind": "reminder"}]}));
    let standing = AddressConsent { preferences, ..AddressConsent::default() };
    let table = [
        ("sms:twilio", "receipt", false),
        ("whatsapp:meta", "news", false),
        ("email:smtp", "reminder", false),
        ("email:smtp", "receipt", true),
        ("whatsapp:meta", "reminder", true),
    ];
    for (channel, kind, sent) in table {
        let want =
            if sent { ConsentDecision::Send } else { ConsentDecision::Suppressed(ConsentRefusal::OptedOut) };
        assert_eq!(decide(&ask(channel, kind, NOON), &standing, &house(json!({}))), want, "{channel} {kind}");
    }
    assert_eq!(
        (ConsentRefusal::OptedOut.word(), ConsentRefusal::Suppressed(SuppressionReason::Stop).word()),
        ("opted-out", "stop")
    );
}

/// NTF-18: the recipient's override goes before the tenant's, and the channel that it leads to is checked,
/// too.
#[test]
fn ntf_18_another_channel_is_used_by_an_override() {
    let tenant = house(json!({"channelOverride": {"whatsapp": "sms:tenant", "email:old": "email:new"}}));
    let own = AddressConsent {
        preferences: preferences(json!({"channelOverride": {"WhatsApp": "sms:own"}})),
        ..AddressConsent::default()
    };
    let unknown = AddressConsent::default();
    let to = |key: &str| ConsentDecision::UseChannel(key.to_owned());
    assert_eq!(decide(&ask("whatsapp:meta", "a", NOON), &own, &tenant), to("sms:own"));
    assert_eq!(decide(&ask("whatsapp:meta", "a", NOON), &unknown, &tenant), to("sms:tenant"));
    assert_eq!(decide(&ask("email:old", "a", NOON), &unknown, &tenant), to("email:new"));
    assert_eq!(decide(&ask("email:new", "a", NOON), &unknown, &tenant), ConsentDecision::Send);
    assert_eq!(decide(&ask("sms:own", "a", NOON), &own, &tenant), ConsentDecision::Send, "one hop only");
    let once = ConsentQuestion { redirected: true, ..ask("whatsapp:meta", "a", NOON) };
    assert_eq!(decide(&once, &own, &tenant), ConsentDecision::Send);
    let stopped = AddressConsent {
        suppressed: suppressed(&[("sms", "", SuppressionReason::Stop)]).suppressed,
        ..own.clone()
    };
    let refused = ConsentDecision::Suppressed(ConsentRefusal::Suppressed(SuppressionReason::Stop));
    assert_eq!(decide(&ask("whatsapp:meta", "a", NOON), &stopped, &tenant), refused, "not by the other one");
    let bounced = AddressConsent {
        suppressed: suppressed(&[("whatsapp", "", SuppressionReason::HardBounce)]).suppressed,
        ..own
    };
    assert_eq!(decide(&ask("whatsapp:meta", "a", NOON), &bounced, &tenant), to("sms:own"));
}

/// NTF-18: quiet hours are those of the recipient's wall clock, and shift.
#[test]
fn ntf_18_quiet_hours_shift_in_the_recipients_zone() {
    let night = json!({"quietHours": {"from": "21:00", "to": "08:00"}});
    let berlin = json!({"quietHours": {"from": "21:00", "to": "08:00", "timeZone": "Europe/Berlin"}});
    let day = json!({"quietHours": {"from": "13:00", "to": "15:30", "timeZone": "UTC"}});
    let tokyo = json!({"timeZone": "Asia/Tokyo"});
    let table = [
        // Tenant, recipient, now, and when it may be sent (its own zone is Baghdad, three hours ahead).
        (&night, json!({}), "2026-05-14T17:59:59Z", None),
        (&night, json!({}), "2026-05-14T18:00:00Z", Some("2026-05-15T05:00:00Z")),
        (&night, json!({}), "2026-05-14T23:30:00Z", Some("2026-05-15T05:00:00Z")),
        (&night, json!({}), "2026-05-15T04:59:59.999999Z", Some("2026-05-15T05:00:00Z")),
        (&night, json!({}), "2026-05-15T05:00:00Z", None),
        (&night, tokyo.clone(), "2026-05-14T18:00:00Z", Some("2026-05-14T23:00:00Z")),
        (&berlin, json!({}), "2026-05-14T18:30:00Z", None),
        (&berlin, json!({}), "2026-05-14T19:30:00Z", Some("2026-05-15T06:00:00Z")),
        (&berlin, tokyo.clone(), "2026-05-14T12:00:00Z", Some("2026-05-14T23:00:00Z")),
        (&day, json!({}), "2026-05-14T13:00:00Z", Some("2026-05-14T15:30:00Z")),
        (&day, json!({}), "2026-05-14T15:30:00Z", None),
        (&night, json!({"quietHours": "none"}), "2026-05-14T23:30:00Z", None),
        (&night, day.clone(), "2026-05-14T23:30:00Z", None),
        (&night, day.clone(), "2026-05-14T14:00:00Z", Some("2026-05-14T15:30:00Z")),
        (&json!({}), json!({}), "2026-05-14T23:30:00Z", None),
    ];
    for (tenant, recipient, now, until) in table {
        let own = AddressConsent { preferences: preferences(recipient.clone()), ..AddressConsent::default() };
        let want = until.map_or(ConsentDecision::Send, |until| ConsentDecision::ShiftTo(at(until)));
        assert_eq!(
            decide(&ask("sms:x", "a", now), &own, &house(tenant.clone())),
            want,
            "{tenant} {recipient} {now}"
        );
    }
}

/// NTF-18: the zone that they want, else the one that their event names, else the tenant's.
#[test]
fn ntf_18_the_events_zone_stands_between_the_recipients_and_the_tenants() {
    let night = json!({"quietHours": {"from": "21:00", "to": "08:00"}});
    let berlin = json!({"quietHours": {"from": "21:00", "to": "08:00", "timeZone": "Europe/Berlin"}});
    let tokyo = json!({"timeZone": "Asia/Tokyo"});
    let (in_baghdad, in_berlin) = ("2026-05-15T05:00:00Z", "2026-05-15T06:00:00Z");
    let (in_tokyo, in_delhi) = ("2026-05-14T23:00:00Z", "2026-05-15T02:30:00Z");
    let table = [
        // Tenant, recipient, the event's zone, and when it may be sent: all are asleep at 20:00 UTC.
        (&night, json!({}), None, in_baghdad),
        (&night, json!({}), Some("Asia/Kolkata"), in_delhi),
        (&berlin, json!({}), Some("Asia/Kolkata"), in_delhi),
        (&night, tokyo.clone(), Some("Asia/Kolkata"), in_tokyo),
        (&night, berlin.clone(), Some("Asia/Kolkata"), in_berlin),
        (&night, night.clone(), Some("Asia/Kolkata"), in_delhi),
        (&night, json!({}), Some("Mars/Base"), in_baghdad),
        (&berlin, json!({}), Some(""), in_berlin),
    ];
    for (tenant, recipient, zone, until) in table {
        let own = AddressConsent { preferences: preferences(recipient.clone()), ..AddressConsent::default() };
        let asked = ConsentQuestion { zone, ..ask("sms:x", "a", "2026-05-14T20:00:00Z") };
        let verdict = decide(&asked, &own, &house(tenant.clone()));
        assert_eq!(verdict, ConsentDecision::ShiftTo(at(until)), "{tenant} {recipient} {zone:?}");
    }
}

/// NTF-18: no kind is exempt unless the tenant says so, and a shift does not hide a suppression.
#[test]
fn ntf_18_only_kinds_that_the_tenant_exempts_are_sent_at_night() {
    let hours = json!({"from": "21:00", "to": "08:00"});
    let exempting = house(json!({"quietHours": hours, "quietHoursExempt": ["otp"]}));
    let plain = house(json!({"quietHours": hours}));
    let night = "2026-05-14T23:30:00Z";
    let shift = ConsentDecision::ShiftTo(at("2026-05-15T05:00:00Z"));
    let unknown = AddressConsent::default();
    assert_eq!(decide(&ask("sms:x", "otp", night), &unknown, &exempting), ConsentDecision::Send);
    assert_eq!(decide(&ask("sms:x", "otp.sent", night), &unknown, &exempting), shift);
    assert_eq!(decide(&ask("sms:x", "otp", night), &unknown, &plain), shift);
    let stopped = suppressed(&[("", "", SuppressionReason::Stop)]);
    let refused = ConsentDecision::Suppressed(ConsentRefusal::Suppressed(SuppressionReason::Stop));
    assert_eq!(decide(&ask("sms:x", "a", night), &stopped, &plain), refused);
    let other = house(json!({"quietHours": hours, "channelOverride": {"sms": "email:x"}}));
    assert_eq!(decide(&ask("sms:x", "a", night), &unknown, &other), shift, "first wait, then by the other");
}

fn hours(from: &str, to: &str) -> QuietHours {
    QuietHours::read(&json!({"from": from, "to": to}), "", &mut Problems::default()).unwrap()
}

/// NTF-18: wall time counts, also on the days when the clocks change.
#[test]
fn ntf_18_quiet_hours_where_the_clocks_change() {
    let table = [
        // An end that is skipped: the first moment after the gap.
        ("Europe/Berlin", "22:00", "02:30", "2026-03-28T23:00:00Z", Some("2026-03-29T01:00:00Z")),
        // A quiet time that is skipped altogether is not waited for.
        ("Europe/Berlin", "02:00", "03:00", "2026-03-29T00:59:59Z", None),
        ("Europe/Berlin", "02:00", "03:00", "2026-03-29T01:00:00Z", None),
        // A night over the gap is an hour shorter, one over the overlap an hour longer.
        ("Europe/Berlin", "21:00", "08:00", "2026-03-28T20:00:00Z", Some("2026-03-29T06:00:00Z")),
        ("Europe/Berlin", "21:00", "08:00", "2026-10-24T19:00:00Z", Some("2026-10-25T07:00:00Z")),
        // An end that comes twice: the first, and again if it has become quiet again.
        ("Europe/Berlin", "22:00", "02:30", "2026-10-24T22:00:00Z", Some("2026-10-25T00:30:00Z")),
        ("Europe/Berlin", "22:00", "02:30", "2026-10-25T00:45:00Z", None),
        ("Europe/Berlin", "22:00", "02:30", "2026-10-25T01:10:00Z", Some("2026-10-25T01:30:00Z")),
        ("Europe/Berlin", "02:15", "02:45", "2026-10-25T00:20:00Z", Some("2026-10-25T00:45:00Z")),
        ("Europe/Berlin", "02:15", "02:45", "2026-10-25T01:20:00Z", Some("2026-10-25T01:45:00Z")),
        // Quiet until the very moment the clocks go back is quiet for an hour more.
        ("Europe/Berlin", "01:00", "03:00", "2026-10-24T23:30:00Z", Some("2026-10-25T02:00:00Z")),
        // A day that never was: Samoa went from the 29th of December to the 31st.
        ("Pacific/Apia", "21:00", "08:00", "2011-12-30T08:00:00Z", Some("2011-12-30T18:00:00Z")),
        // Half an hour: Lord Howe.
        ("Australia/Lord_Howe", "01:00", "01:45", "2026-04-04T14:20:00Z", Some("2026-04-04T14:45:00Z")),
    ];
    for (zone, from, to, now, want) in table {
        let zone = Zone::find(zone).unwrap();
        let end = hours(from, to).end_after(at(now), &zone);
        assert_eq!(end, want.map(at), "{} {from} to {to} at {now}", zone.name());
    }
}

/// NTF-18: every problem is reported with its path.
#[test]
fn ntf_18_bad_preferences_are_told_everything() {
    let mut problems = Problems::default();
    let json = json!({"optOuts": [{}, {"chanel": "sms"}, {"channel": "sms:", "kind": ""}, 7],
        "locale": "en_US", "timeZone": "Mars/Base",
        "channelOverride": {"whatsapp": "sms", "": "sms:x", "push": 1},
        "quietHours": {"from": "9:00", "to": "25:00", "timeZone": "CEST"}, "quiet": 1});
    RecipientPreferences::read(&json, &mut problems);
    let paths: Vec<&str> = problems.0.iter().map(|problem| problem.path.as_str()).collect();
    for path in [
        "quiet",
        "optOuts[0]",
        "optOuts[1].chanel",
        "optOuts[1]",
        "optOuts[2].channel",
        "optOuts[2].kind",
        "optOuts[3]",
        "channelOverride.",
        "channelOverride.whatsapp",
        "channelOverride.push",
        "locale",
        "timeZone",
        "quietHours.from",
        "quietHours.to",
        "quietHours.timeZone",
    ] {
        assert!(paths.contains(&path), "{path} in {problems}");
    }
    for (wrong, said) in [
        (json!("never"), "is neither `none` nor hours"),
        (json!({"from": "08:00", "to": "08:00"}), "is the same as `from`"),
        (json!({"from": "08:00"}), "to: is missing"),
        (json!({"from": 8, "to": "24:00"}), "`24:00` is not a local time"),
    ] {
        let mut problems = Problems::default();
        assert_eq!(QuietPreference::read(&wrong, "q", &mut problems), None);
        assert!(problems.to_string().contains(said), "{problems}");
    }
    let mut problems = Problems::default();
    TenantSettings::read(
        &json!({"quietHours": "none", "quietHoursExempt": [1, " x"], "channelOverride": []}),
        &mut problems,
    );
    assert_eq!(problems.0.len(), 4, "{problems}");
}

/// A document that is written reads back as the same document.
#[test]
fn documents_read_what_they_write() {
    let given = json!({"optOuts": [{"channel": "all", "kind": null}, {"channel": "sms", "kind": "news"}],
        "channelOverride": {"whatsapp": "sms:twilio"}, "locale": "ar-IQ", "timeZone": "Asia/Baghdad",
        "quietHours": {"from": "21:00", "to": "07:59:30", "timeZone": "UTC"}});
    assert_eq!(Value::Object(preferences(given.clone()).to_json()), given);
    let nothing =
        json!({"optOuts": [], "channelOverride": {}, "locale": null, "timeZone": null, "quietHours": null});
    assert_eq!(Value::Object(RecipientPreferences::default().to_json()), nothing);
    let given = json!({"quietHours": {"from": "21:00", "to": "08:00"}, "quietHoursExempt": ["otp"],
        "channelOverride": {"email:old": "email:new"}});
    assert_eq!(Value::Object(settings(given.clone()).to_json()), given);
    for (reason, word) in SuppressionReason::ALL {
        assert_eq!((SuppressionReason::from_word(word), reason.word()), (Some(reason), word));
    }
}

const ZONES: [&str; 7] = [
    "UTC",
    "Asia/Baghdad",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// NTF-18: a shift goes to the first moment that is not quiet, less than two days away: it never drops.
    #[test]
    fn ntf_18_a_shift_ends_with_the_quiet(
        zone in prop::sample::select(&ZONES[..]),
        from in 0_u32..96, length in 1_u32..96, minute in 0_i64..30_000_000,
    ) {
        let zone = Zone::find(zone).unwrap();
        let clock = |quarter: u32| format!("{:02}:{:02}", quarter % 96 / 4, quarter % 4 * 15);
        let hours = hours(&clock(from), &clock(from + length));
        // Fifty years from 1990 on.
        let now = Timestamp::from_micros((631_152_000 + minute * 60) * 1_000_000);
        let quiet = |moment: Timestamp| hours.hold(zone.local(moment).unwrap().time());
        match hours.end_after(now, &zone) {
            None => prop_assert!(!quiet(now)),
            Some(end) => {
                prop_assert!(end > now && end.since(now) < Duration::from_secs(48 * 60 * 60));
                prop_assert!(!quiet(end), "it is not quiet at the end");
                let mut moment = now;
                while moment < end {
                    prop_assert!(quiet(moment), "it is quiet at {moment}, before the end");
                    moment = moment.plus(Duration::from_secs(60));
                }
            }
        }
    }

    /// NTF-18: the form of an address is a form.
    #[test]
    fn ntf_18_a_form_is_its_own_form(address in ".{0,40}") {
        let form = normal(&address);
        prop_assert_eq!(normal(&form), form);
    }
}
