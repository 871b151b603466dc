//! Suppressions, preferences, settings, and what a sender is told of them.

use crate::bench::{Bench, TENANT};
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::delivery::rules::consent::{
    ConsentDecision, ConsentQuestion, ConsentRefusal, ConsentScope, RecipientPreferences, SuppressionReason,
    TenantSettings,
};
use punctual::delivery::rules::unsubscribe::UnsubscribeLink;
use punctual::delivery::store::consent::{NewSuppression, Suppression, SuppressionFilter};
use punctual::{Error, Problems, SuppressionId, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;

cases![
    ntf_18_suppressing_again_keeps_the_first_reason,
    ntf_18_lifting_says_what_it_lifted,
    ntf_18_suppressions_are_listed_by_filter,
    ntf_18_a_sender_reads_a_batch_of_many_tenants_at_once,
    ntf_18_nobody_is_asked_about_a_tenant_without_rows,
    ntf_18_preferences_and_settings_are_replaced,
    ntf_18_a_link_suppresses_and_takes_back_its_own_deed_only,
    ntf_18_every_process_has_the_same_secret,
    ntf_18_a_failing_statement_changes_nothing,
    ntf_18_many_at_once_suppress_once,
    ntf_8_a_preferred_language_chooses_the_template,
    ntf_18_quiet_hours_go_by_the_zone_of_the_event,
];

const PHONE: &str = "+964 770 000 0001";
const FORM: &str = "+9647700000001";
const MAIL: &str = "Ana@Example.org";

fn scope(channel: &str, kind: &str) -> ConsentScope {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ConsentScope { channel: some(channel), kind: some(kind) }
}

fn new(address: &str, scope: ConsentScope, reason: SuppressionReason) -> NewSuppression {
    NewSuppression { told_at: None, address: address.into(), scope, reason, by: "ops".into() }
}

async fn suppress(t: &Bench, address: &str, scope: ConsentScope, reason: SuppressionReason) -> Suppression {
    let (row, is_new) = t.store().suppress(TENANT, new(address, scope, reason)).await.unwrap();
    assert!(is_new, "{row:?}");
    row
}

fn of(address: &str) -> SuppressionFilter {
    SuppressionFilter { address: Some(address.into()), ..SuppressionFilter::default() }
}

async fn listed(t: &Bench, filter: SuppressionFilter) -> Vec<SuppressionId> {
    let found = t.store().suppressions(TENANT, filter, SuppressionId(0), 100).await.unwrap();
    found.into_iter().map(|one| one.id).collect()
}

async fn tenant(t: &Bench, slug: &str) -> Tenant {
    let new = NewTenant { slug: slug.into(), name: "Acme & Sons".into(), ..NewTenant::default() };
    t.store().create_tenant(new).await.unwrap().tenant
}

fn ask(channel: &'static str, kind: &'static str, now: Timestamp) -> ConsentQuestion<'static> {
    ConsentQuestion { channel, kind, now, redirected: false, zone: None }
}

async fn verdict(t: &Bench, tenant: Tenant, address: &str, asked: ConsentQuestion<'_>) -> ConsentDecision {
    t.store().consent(vec![(tenant, address.to_owned())]).await.unwrap().verdict(tenant, address, &asked)
}

fn preferences(json: Value) -> RecipientPreferences {
    RecipientPreferences::read(&json, &mut Problems::default()).unwrap()
}

fn settings(json: Value) -> TenantSettings {
    TenantSettings::read(&json, &mut Problems::default()).unwrap()
}

const STOPPED: ConsentDecision =
    ConsentDecision::Suppressed(ConsentRefusal::Suppressed(SuppressionReason::Stop));

/// NTF-18: the first stands, with its reason; the address has one form.
async fn ntf_18_suppressing_again_keeps_the_first_reason(t: &Bench) {
    let first = suppress(t, PHONE, scope("sms", ""), SuppressionReason::Stop).await;
    assert_eq!((first.address.as_str(), first.since), (FORM, t.now().await));
    let before = t.dump().await;
    let again = || new("00964-7700000001", scope("sms", ""), SuppressionReason::Manual);
    assert_eq!(t.store().suppress(TENANT, again()).await.unwrap(), (first.clone(), false));
    before.assert_equals(&t.dump().await, "the same suppression again");
    t.advance(Duration::from_secs(60)).await;
    assert_eq!(t.store().suppress(TENANT, again()).await.unwrap(), (first, false), "a minute later, too");
    let before = t.dump().await;
    let wrong =
        t.store().suppress(TENANT, new(" ", ConsentScope::default(), SuppressionReason::Manual)).await;
    assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
    before.assert_equals(&t.dump().await, "a suppression of nobody");
}

/// NTF-18: what was lifted stays as history, and may be made again.
async fn ntf_18_lifting_says_what_it_lifted(t: &Bench) {
    let sms = suppress(t, PHONE, scope("sms", ""), SuppressionReason::Stop).await;
    let all = suppress(t, PHONE, ConsentScope::default(), SuppressionReason::Manual).await;
    suppress(t, MAIL, ConsentScope::default(), SuppressionReason::HardBounce).await;
    let now = t.advance(Duration::from_secs(5)).await;
    let only_sms = SuppressionFilter { channel: Some("sms".into()), ..of(FORM) };
    let done = t.store().lift_suppressions(TENANT, only_sms.clone(), "ana").await.unwrap();
    assert_eq!(done.lifted, [Suppression { lifted: Some((now, "ana".into())), ..sms.clone() }]);
    assert_eq!((done.left.len(), done.left.first()), (1, Some(&all)));
    let again = t.store().lift_suppressions(TENANT, only_sms, "ana").await.unwrap();
    assert_eq!((again.lifted.len(), again.left.len()), (0, 1), "again lifts nothing");
    let rest = t.store().lift_suppressions(TENANT, of(PHONE), "ana").await.unwrap();
    assert_eq!((rest.lifted.len(), rest.left.len()), (1, 0));
    let anew = suppress(t, PHONE, scope("sms", ""), SuppressionReason::Unsubscribe).await;
    assert_eq!(listed(t, of(PHONE)).await, [anew.id]);
    let history = SuppressionFilter { lifted: true, ..of(PHONE) };
    assert_eq!(listed(t, history).await, [sms.id, all.id, anew.id]);
    let elsewhere = tenant(t, "acme").await;
    let others = t.store().lift_suppressions(elsewhere, of(MAIL), "ana").await.unwrap();
    assert_eq!((others.lifted.len(), others.left.len()), (0, 0), "another tenant's are not touched");
}

/// NTF-18
async fn ntf_18_suppressions_are_listed_by_filter(t: &Bench) {
    let one = suppress(t, PHONE, scope("sms", ""), SuppressionReason::Stop).await.id;
    let two = suppress(t, MAIL, scope("email", "news"), SuppressionReason::Unsubscribe).await.id;
    let three = suppress(t, MAIL, ConsentScope::default(), SuppressionReason::Manual).await.id;
    let none = SuppressionFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let table = [
        (none(), vec![one, two, three]),
        (of("ana@example.ORG"), vec![two, three]),
        (SuppressionFilter { channel: text("sms"), ..none() }, vec![one]),
        (SuppressionFilter { channel: text(""), ..none() }, vec![three]),
        (SuppressionFilter { kind: text("news"), ..none() }, vec![two]),
        (SuppressionFilter { kind: text(""), ..none() }, vec![one, three]),
        (SuppressionFilter { reason: Some(SuppressionReason::Manual), ..none() }, vec![three]),
        (SuppressionFilter { reason: Some(SuppressionReason::HardBounce), ..none() }, vec![]),
    ];
    for (filter, want) in table {
        assert_eq!(listed(t, filter.clone()).await, want, "{filter:?}");
    }
    let second = t.store().suppressions(TENANT, none(), one, 1).await.unwrap();
    assert_eq!(second.iter().map(|s| s.id).collect::<Vec<_>>(), [two], "by pages");
    let acme = tenant(t, "acme").await;
    assert_eq!(t.store().suppressions(acme, none(), SuppressionId(0), 9).await.unwrap(), []);
}

/// NTF-18: one read for a batch; nobody is told what is known in another tenant.
async fn ntf_18_a_sender_reads_a_batch_of_many_tenants_at_once(t: &Bench) {
    let (acme, now) = (tenant(t, "acme").await, t.now().await);
    suppress(t, PHONE, scope("sms", ""), SuppressionReason::Stop).await;
    let off = preferences(json!({"optOuts": [{"channel": "email", "kind": "news"}]}));
    t.store().put_preferences(acme, MAIL, off, "ana").await.unwrap();
    let moved = settings(json!({"channelOverride": {"whatsapp": "sms:twilio"}}));
    t.store().put_tenant_settings(acme, moved, "ana").await.unwrap();
    let pairs = [(TENANT, PHONE), (acme, PHONE), (TENANT, MAIL), (acme, MAIL)];
    let asked = pairs.iter().map(|(tenant, address)| (*tenant, (*address).to_owned())).collect();
    let consent = t.store().consent(asked).await.unwrap();
    let opted_out = ConsentDecision::Suppressed(ConsentRefusal::OptedOut);
    let table = [
        (TENANT, "9647700000001", "sms:twilio", "news", STOPPED),
        (TENANT, PHONE, "whatsapp:meta", "news", ConsentDecision::Send),
        (acme, PHONE, "sms:twilio", "news", ConsentDecision::Send),
        (acme, PHONE, "whatsapp:meta", "news", ConsentDecision::UseChannel("sms:twilio".into())),
        (TENANT, MAIL, "email:smtp", "news", ConsentDecision::Send),
        (acme, "ANA@example.org", "email:smtp", "news", opted_out),
        (acme, MAIL, "email:smtp", "receipt", ConsentDecision::Send),
    ];
    for (tenant, address, channel, kind, want) in table {
        assert_eq!(consent.verdict(tenant, address, &ask(channel, kind, now)), want, "{address} {channel}");
    }
    assert!(consent.standing(TENANT, MAIL).is_none() && consent.standing(acme, MAIL).is_some());
    t.store().lift_suppressions(TENANT, of(PHONE), "ana").await.unwrap();
    assert_eq!(verdict(t, TENANT, PHONE, ask("sms:twilio", "news", now)).await, ConsentDecision::Send);
}

/// NTF-18: a sender need not ask about those who have nothing.
async fn ntf_18_nobody_is_asked_about_a_tenant_without_rows(t: &Bench) {
    let (acme, beta, gamma) = (tenant(t, "acme").await, tenant(t, "beta").await, tenant(t, "gamma").await);
    t.store().suppress(acme, new(PHONE, ConsentScope::default(), SuppressionReason::Manual)).await.unwrap();
    t.store().put_preferences(beta, PHONE, RecipientPreferences::default(), "ana").await.unwrap();
    t.store().put_tenant_settings(gamma, TenantSettings::default(), "ana").await.unwrap();
    for (tenant, want) in [(TENANT, false), (acme, true), (beta, true), (gamma, true)] {
        assert_eq!(t.store().has_consent(tenant).await.unwrap(), want, "{tenant}");
    }
    assert_eq!(verdict(t, TENANT, PHONE, ask("sms:x", "a", t.now().await)).await, ConsentDecision::Send);
}

/// NTF-18: the last word stands, with whose it is; quiet hours are in the tenant's zone if nobody names one.
async fn ntf_18_preferences_and_settings_are_replaced(t: &Bench) {
    assert_eq!(t.store().preferences(TENANT, PHONE).await.unwrap().written, None);
    assert_eq!(t.store().tenant_settings(TENANT).await.unwrap().written, None);
    let wanted = preferences(json!({"quietHours": {"from": "21:00", "to": "08:00"}, "locale": "ar"}));
    t.store().put_preferences(TENANT, PHONE, RecipientPreferences::default(), "bob").await.unwrap();
    let now = t.advance(Duration::from_secs(60)).await;
    let put = t.store().put_preferences(TENANT, PHONE, wanted.clone(), "ana").await.unwrap();
    assert_eq!(t.store().preferences(TENANT, FORM).await.unwrap(), put);
    assert_eq!((put.document, put.written), (wanted, Some((now, "ana".into()))));
    let night = Timestamp::parse("2026-05-14T23:00:00Z").unwrap();
    let morning = Timestamp::parse("2026-05-15T08:00:00Z").unwrap();
    let shifted = verdict(t, TENANT, PHONE, ask("sms:x", "otp", night)).await;
    assert_eq!(shifted, ConsentDecision::ShiftTo(morning), "in the tenant's zone, which is UTC");
    let exempt = settings(json!({"quietHoursExempt": ["otp"]}));
    let put = t.store().put_tenant_settings(TENANT, exempt, "ana").await.unwrap();
    assert_eq!(t.store().tenant_settings(TENANT).await.unwrap(), put);
    assert_eq!(verdict(t, TENANT, PHONE, ask("sms:x", "otp", night)).await, ConsentDecision::Send);
    let wrong = t.store().put_preferences(TENANT, "a\nb", RecipientPreferences::default(), "ana").await;
    assert!(matches!(wrong, Err(Error::Invalid(_))), "{wrong:?}");
}

fn link(tenant: Tenant, kind: Option<&str>) -> UnsubscribeLink {
    let (address, channel) = ("ana@example.org".to_owned(), "email".to_owned());
    UnsubscribeLink { tenant, address, channel, kind: kind.map(str::to_owned), locale: None }
}

/// NTF-18: an undo lifts what the link did, not what somebody else said.
async fn ntf_18_a_link_suppresses_and_takes_back_its_own_deed_only(t: &Bench) {
    let acme = tenant(t, "acme").await;
    let (store, now) = (t.store(), t.now().await);
    let news = link(acme, Some("news"));
    let before = t.dump().await;
    let at_first = store.look_at_link(news.clone()).await.unwrap().unwrap();
    assert_eq!(
        (at_first.suppressed, at_first.by_link, at_first.tenant.as_str()),
        (false, false, "Acme & Sons")
    );
    before.assert_equals(&t.dump().await, "a look");
    for _ in 0..2 {
        let done = store.follow_link(news.clone()).await.unwrap().unwrap();
        assert!(done.suppressed && done.by_link);
    }
    let unsubscribed =
        ConsentDecision::Suppressed(ConsentRefusal::Suppressed(SuppressionReason::Unsubscribe));
    assert_eq!(verdict(t, acme, MAIL, ask("email:smtp", "news", now)).await, unsubscribed);
    assert_eq!(verdict(t, acme, MAIL, ask("email:smtp", "receipt", now)).await, ConsentDecision::Send);
    assert_eq!(verdict(t, acme, MAIL, ask("sms:x", "news", now)).await, ConsentDecision::Send);
    let whole = store.look_at_link(link(acme, None)).await.unwrap().unwrap();
    assert!(!whole.suppressed, "a narrower suppression is not the whole");
    store.suppress(acme, new(MAIL, ConsentScope::default(), SuppressionReason::Manual)).await.unwrap();
    for _ in 0..2 {
        let undone = store.undo_link(news.clone()).await.unwrap().unwrap();
        assert!(undone.suppressed && !undone.by_link, "what somebody else said stays");
    }
    store.lift_suppressions(acme, of(MAIL), "ana").await.unwrap();
    assert_eq!(verdict(t, acme, MAIL, ask("email:smtp", "news", now)).await, ConsentDecision::Send);
    store.put_preferences(acme, MAIL, preferences(json!({"locale": "ar"})), "ana").await.unwrap();
    assert_eq!(store.look_at_link(news).await.unwrap().unwrap().locale.as_deref(), Some("ar"));
    let elsewhere = store.look_at_link(link(TENANT, None)).await.unwrap().unwrap();
    assert_eq!((elsewhere.suppressed, elsewhere.locale), (false, None), "another tenant knows nothing of it");
}

/// NTF-18: a link that one process made is read by another, and by a later one.
async fn ntf_18_every_process_has_the_same_secret(t: &Bench) {
    let other = t.another().await;
    let (one, two) = tokio::join!(t.store().link_secret(), other.link_secret());
    let token = one.unwrap().seal(&link(TENANT, None));
    assert_eq!(two.unwrap().open(&token), Some(link(TENANT, None)));
    assert_eq!(t.another().await.link_secret().await.unwrap().open(&token), Some(link(TENANT, None)));
    assert_eq!(t.store().link_secret().await.unwrap().open("AAAA"), None);
}

/// NTF-18
async fn ntf_18_a_failing_statement_changes_nothing(t: &Bench) {
    let one = || new(PHONE, scope("sms", ""), SuppressionReason::Stop);
    shake!(t, "a suppression", |store| store.suppress(TENANT, one()));
    shake!(t, "a lifting", |store| store.lift_suppressions(TENANT, of(PHONE), "ana"));
    shake!(t, "preferences", |store| store.put_preferences(
        TENANT,
        PHONE,
        RecipientPreferences::default(),
        "ana"
    ));
    shake!(t, "settings", |store| store.put_tenant_settings(TENANT, TenantSettings::default(), "ana"));
    shake!(t, "a link followed", |store| store.follow_link(link(TENANT, None)));
    shake!(t, "a link undone", |store| store.undo_link(link(TENANT, None)));
    shake!(t, "the secret", |store| store.link_secret());
}

/// NTF-18: of many who say the same at once, one makes the row.
async fn ntf_18_many_at_once_suppress_once(t: &Bench) {
    let one = |store: punctual::Store| {
        tokio::spawn(async move {
            store.suppress(TENANT, new(PHONE, scope("sms", ""), SuppressionReason::Stop)).await
        })
    };
    let all: Vec<_> = (0..8).map(|_| one(t.store().clone())).collect();
    let mut made = 0;
    for done in all {
        made += usize::from(done.await.unwrap().unwrap().1);
    }
    assert_eq!((made, listed(t, SuppressionFilter::default()).await.len()), (1, 1));
}

/// NTF-8, NTF-18: the template is the one in the language that the owner of the address wants.
async fn ntf_8_a_preferred_language_chooses_the_template(t: &Bench) {
    let engine = crate::notification::engine(t).await;
    crate::notification::define(&engine, TENANT, |_| {}).await;
    for (language, body) in [("en", "Confirmed {{bookingId}}"), ("ar", "مؤكد {{bookingId}}")] {
        let json = json!({"eventType": crate::notification::KIND, "channel": "SMS",
                "language": language, "body": body});
        engine.store().create_template(TENANT, crate::invitation::read_template(&json)).await.unwrap();
    }
    crate::notification::confirm(&engine, "1").await;
    crate::notification::tick(&engine).await;
    crate::notification::prefer(&engine, "+91 98765 43210", &json!({"locale": "ar-IQ"})).await;
    crate::notification::confirm(&engine, "2").await;
    crate::notification::tick(&engine).await;
    let got = crate::notification::inbox(&engine);
    assert_eq!(got, ["memory:sms +919876543210: Confirmed 1", "memory:sms +919876543210: مؤكد 2"]);
}

/// NTF-18: quiet hours are those of where the event says that the recipient lives, if they do not say it.
async fn ntf_18_quiet_hours_go_by_the_zone_of_the_event(t: &Bench) {
    let engine = crate::notification::engine(t).await;
    let zone = |kind: &mut Value| kind["recipients"]["timeZone"] = json!("guest.zone");
    crate::notification::define(&engine, TENANT, zone).await;
    crate::notification::template(&engine, TENANT, "SMS", "{{bookingId}}").await;
    let night = settings(json!({"quietHours": {"from": "21:00", "to": "08:00"}}));
    engine.store().put_tenant_settings(TENANT, night, "test").await.unwrap();
    // It is 05:13 in the tenant's UTC, 01:13 in New York and 10:43 in India.
    let zones = [("1", None), ("2", Some("America/New_York")), ("3", Some("Asia/Kolkata"))];
    for (id, zone) in zones {
        let mut booking = crate::notification::booking(id);
        booking["guest"]["zone"] = json!(zone);
        crate::notification::confirm_in(&engine, TENANT, &booking).await;
    }
    let mut sent = Vec::new();
    for moment in ["05:13:00", "07:59:59", "08:00:00", "11:59:59", "12:00:00"] {
        engine.travel(crate::invitation::time(&format!("2026-05-14T{moment}Z")), true).await.unwrap();
        crate::notification::tick(&engine).await;
        sent.push(crate::notification::inbox(&engine).len());
    }
    assert_eq!(sent, [1, 1, 2, 2, 3]);
}
