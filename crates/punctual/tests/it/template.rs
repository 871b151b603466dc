//! Message templates: versions, what is in use, and the stamp that tells of changes.

use crate::bench::{Bench, TENANT};
use punctual::access::store::tenants::NewTenant;
use punctual::base::tenant::Tenant;
use punctual::delivery::rules::template::{TemplateDefinition, TemplateScope};
use punctual::delivery::run::templates::TemplateCache;
use punctual::delivery::store::templates::{TemplateDeletion, TemplateFilter};
use punctual::{Error, TemplateId};
use std::sync::Arc;
use std::time::Duration;

cases![
    ntf_7_editing_makes_a_new_version,
    ntf_7_a_version_is_never_changed,
    ntf_7_a_deleted_template_is_used_no_more,
    ntf_7_templates_are_listed_by_what_they_are_for,
    ntf_7_a_template_is_its_tenants,
    ntf_10_a_bad_template_is_refused,
    ntf_8_what_is_in_use_comes_with_its_stamp,
    trg_18_templates_are_kept_until_the_stamp_changes,
    trg_18_a_failing_statement_changes_nothing,
    trg_18_edits_at_once_lose_none,
];

const EVENT: &str = "survey.invitation";

fn definition(body: &str) -> TemplateDefinition {
    TemplateDefinition {
        event_type: EVENT.into(),
        channel: "WhatsApp".into(),
        language: "en".into(),
        body: body.into(),
        ..TemplateDefinition::default()
    }
}

async fn made(t: &Bench, body: &str) -> TemplateId {
    t.store().create_template(TENANT, definition(body)).await.unwrap().id
}

async fn bodies(t: &Bench, tenant: Tenant) -> Vec<String> {
    let active = t.store().active_templates(tenant, EVENT).await.unwrap();
    active.templates.into_iter().map(|template| template.definition.body).collect()
}

/// NTF-7: the same again is no edit, a switch is none either.
async fn ntf_7_editing_makes_a_new_version(t: &Bench) {
    let first = t.store().create_template(TENANT, definition("one")).await.unwrap();
    assert_eq!((first.version, first.active, first.definition.body.as_str()), (1, true, "one"));
    assert_eq!(t.store().template(TENANT, first.id).await.unwrap(), Some(first.clone()));
    let now = t.advance(Duration::from_secs(5)).await;
    let same = t.store().change_template(TENANT, first.id, definition("one")).await.unwrap();
    assert_eq!(same, first, "the same again changes nothing");
    let second = TemplateDefinition { language: "ar".into(), ..definition("two") };
    let second = t.store().change_template(TENANT, first.id, second).await.unwrap();
    assert_eq!((second.version, second.definition.language.as_str()), (2, "ar"));
    assert_eq!((second.created_at, second.updated_at), (first.created_at, now));
    let off = TemplateDefinition { active: Some(false), ..second.definition.clone() };
    let off = t.store().change_template(TENANT, first.id, off).await.unwrap();
    assert_eq!((off.version, off.active), (2, false), "a switch is no new version");
    let still = t.store().change_template(TENANT, first.id, definition("three")).await.unwrap();
    assert_eq!((still.version, still.active), (3, false), "left out, it stays as it is");
    for (number, body) in [(1, Some("one")), (2, Some("two")), (3, Some("three")), (4, None)] {
        let kept = t.store().template_version(TENANT, first.id, number).await.unwrap();
        assert_eq!(kept.as_ref().map(|kept| kept.body.as_str()), body, "version {number}");
    }
}

/// NTF-7: not even by hand.
async fn ntf_7_a_version_is_never_changed(t: &Bench) {
    made(t, "one").await;
    let table = match t.backend {
        punctual::testing::Backend::Sqlite => "punctual_message_template_version",
        punctual::testing::Backend::Postgres => "punctual.message_template_version",
    };
    let refused = t.place.sql(&[format!("update {table} set definition = '{{}}'")]).await;
    let said = format!("{:?}", refused.unwrap_err());
    assert!(said.contains("never updated"), "a trigger should refuse it: {said}");
}

/// NTF-7
async fn ntf_7_a_deleted_template_is_used_no_more(t: &Bench) {
    let (id, other) = (made(t, "one").await, made(t, "two").await);
    assert_eq!(t.store().delete_template(TENANT, id).await.unwrap(), TemplateDeletion::Gone);
    assert_eq!(
        t.store().delete_template(TENANT, id).await.unwrap(),
        TemplateDeletion::Unknown,
        "once is enough"
    );
    assert_eq!(t.store().template(TENANT, id).await.unwrap(), None);
    let again = t.store().change_template(TENANT, id, definition("x")).await;
    assert!(matches!(again, Err(Error::NotFound(_))), "{again:?}");
    assert_eq!(bodies(t, TENANT).await, ["two"]);
    let left = t.store().templates(TENANT, TemplateFilter::default(), TemplateId(0), 10).await.unwrap();
    assert_eq!(left.iter().map(|template| template.id).collect::<Vec<_>>(), [other]);
    let kept = t.store().template_version(TENANT, id, 1).await.unwrap();
    assert_eq!(kept.unwrap().body, "one", "a log can still show it");
}

/// NTF-7
async fn ntf_7_templates_are_listed_by_what_they_are_for(t: &Bench) {
    let scope = Some(TemplateScope { kind: "survey".into(), id: "7".into() });
    let all = [
        definition("0"),
        TemplateDefinition { language: "ar".into(), ..definition("1") },
        TemplateDefinition { channel: "SMS".into(), ..definition("2") },
        TemplateDefinition { event_type: "booking.confirmed".into(), ..definition("3") },
        TemplateDefinition { scope, ..definition("4") },
        TemplateDefinition { active: Some(false), ..definition("5") },
    ];
    for definition in all {
        t.store().create_template(TENANT, definition).await.unwrap();
    }
    let text = |text: &str| Some(text.to_owned());
    let any = TemplateFilter::default;
    let table = [
        (any(), "012345"),
        (TemplateFilter { event_type: text(EVENT), ..any() }, "01245"),
        (TemplateFilter { language: text("ar"), ..any() }, "1"),
        (TemplateFilter { channel: text("SMS"), ..any() }, "2"),
        (TemplateFilter { scope_type: text("survey"), ..any() }, "4"),
        (TemplateFilter { scope_type: text("survey"), scope_id: text("8"), ..any() }, ""),
        (TemplateFilter { active: Some(false), ..any() }, "5"),
        (TemplateFilter { active: Some(true), event_type: text(EVENT), ..any() }, "0124"),
    ];
    for (filter, want) in table {
        let said = format!("{filter:?}");
        let found = t.store().templates(TENANT, filter, TemplateId(0), 10).await.unwrap();
        let found: String = found.into_iter().map(|template| template.definition.body).collect();
        assert_eq!(found, want, "{said}");
    }
    let page = t.store().templates(TENANT, any(), TemplateId(0), 2).await.unwrap();
    let next = t.store().templates(TENANT, any(), page[1].id, 2).await.unwrap();
    assert_eq!((page.len(), next[0].definition.body.as_str()), (2, "2"));
}

/// NTF-7
async fn ntf_7_a_template_is_its_tenants(t: &Bench) {
    let new = NewTenant { slug: "acme".into(), name: "Acme".into(), ..NewTenant::default() };
    let acme = t.store().create_tenant(new).await.unwrap().tenant;
    let id = made(t, "one").await;
    assert_eq!(t.store().template(acme, id).await.unwrap(), None);
    assert_eq!(t.store().template_version(acme, id, 1).await.unwrap(), None);
    assert_eq!(t.store().delete_template(acme, id).await.unwrap(), TemplateDeletion::Unknown);
    assert!(t.store().change_template(acme, id, definition("x")).await.is_err());
    assert_eq!(bodies(t, acme).await, Vec::<String>::new());
    assert_eq!(bodies(t, TENANT).await, ["one"]);
    assert_eq!(t.store().template_stamp(acme).await.unwrap(), 0, "nothing happened there");
}

/// NTF-10: nothing is written.
async fn ntf_10_a_bad_template_is_refused(t: &Bench) {
    let id = made(t, "one").await;
    let before = t.dump().await;
    let bad = TemplateDefinition { subject: Some("a\nb".into()), ..definition("Hello {{name") };
    for refused in [
        t.store().create_template(TENANT, bad.clone()).await,
        t.store().change_template(TENANT, id, bad).await,
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains("subject: has a line break") && said.contains("body: line 1, column 7"),
            "{said}"
        );
    }
    before.assert_equals(&t.dump().await, "a refused template");
}

/// NTF-8
async fn ntf_8_what_is_in_use_comes_with_its_stamp(t: &Bench) {
    let none = t.store().active_templates(TENANT, EVENT).await.unwrap();
    assert_eq!((none.stamp, none.templates.len()), (0, 0));
    assert_eq!((none.default_locale.as_str(), none.time_zone.as_str()), ("en", "UTC"));
    let id = made(t, "one").await;
    let off = t
        .store()
        .create_template(TENANT, TemplateDefinition { active: Some(false), ..definition("off") })
        .await;
    off.unwrap();
    let other = TemplateDefinition { event_type: "other".into(), ..definition("other") };
    t.store().create_template(TENANT, other).await.unwrap();
    assert_eq!(bodies(t, TENANT).await, ["one"]);
    let mut last = t.store().template_stamp(TENANT).await.unwrap();
    assert_eq!(last, 3);
    t.store().change_template(TENANT, id, definition("one")).await.unwrap();
    assert_eq!(t.store().template_stamp(TENANT).await.unwrap(), last, "nothing changed");
    for body in ["two", "three"] {
        t.store().change_template(TENANT, id, definition(body)).await.unwrap();
        let stamp = t.store().template_stamp(TENANT).await.unwrap();
        assert!(stamp > last, "each change is told");
        last = stamp;
    }
    t.store().delete_template(TENANT, id).await.unwrap();
    assert!(t.store().template_stamp(TENANT).await.unwrap() > last);
}

/// TRG-18: compiled once, and read again only when something changed.
async fn trg_18_templates_are_kept_until_the_stamp_changes(t: &Bench) {
    let id = made(t, "one {{a}}").await;
    let asking = TemplateCache::new(Duration::ZERO);
    let first = asking.of(t.store(), TENANT, EVENT).await.unwrap();
    assert_eq!(first.templates[0].definition.body, "one {{a}}");
    let again = asking.of(t.store(), TENANT, EVENT).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "nothing changed, nothing is read");
    let resting = TemplateCache::new(Duration::from_secs(3600));
    let rested = resting.of(t.store(), TENANT, EVENT).await.unwrap();
    t.another().await.change_template(TENANT, id, definition("two")).await.unwrap();
    let changed = asking.of(t.store(), TENANT, EVENT).await.unwrap();
    assert_eq!((changed.templates[0].definition.body.as_str(), changed.templates[0].version), ("two", 2));
    let still = resting.of(t.store(), TENANT, EVENT).await.unwrap();
    assert!(Arc::ptr_eq(&rested, &still), "it was looked at a moment ago");
    let other = asking.of(t.store(), TENANT, "other").await.unwrap();
    assert_eq!(other.templates.len(), 0);
}

/// TRG-18: all or nothing, whichever statement fails.
async fn trg_18_a_failing_statement_changes_nothing(t: &Bench) {
    let id = made(t, "one").await;
    shake!(t, "making a template", |store| store.create_template(TENANT, definition("new")));
    shake!(t, "changing a template", |store| store.change_template(TENANT, id, definition("two")));
    shake!(t, "deleting a template", |store| store.delete_template(TENANT, id));
}

/// TRG-18: each edit is a version of its own, and the stamp counts them all.
async fn trg_18_edits_at_once_lose_none(t: &Bench) {
    let id = made(t, "start").await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = t.another().await;
        tasks.spawn(
            async move { store.change_template(TENANT, id, definition(&n.to_string())).await.unwrap() },
        );
    }
    let mut versions: Vec<u32> =
        tasks.join_all().await.into_iter().map(|template| template.version).collect();
    versions.sort_unstable();
    assert_eq!(versions, (2..=9).collect::<Vec<_>>());
    assert_eq!(t.store().template_stamp(TENANT).await.unwrap(), 9);
}
