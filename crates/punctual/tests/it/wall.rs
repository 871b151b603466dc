//! NTF-23: the second wall between tenants, PostgreSQL's row-level security.

use crate::bench::{Bench, TENANT, message, seconds};
use crate::dump::first_column;
use punctual::Tenant;
use punctual::access::store::tenants::NewTenant;
use punctual::base::id::MessageId;
use punctual::database::migrate::SCHEMA_VERSION;
use punctual::database::store::Store;
use punctual::testing::Backend;
use punctual::testing::place::TestDatabase;
use std::path::PathBuf;

/// Tables without a wall. A claim is of many tenants and holds numbers only; the rest is nobody's.
const OPEN: [&str; 7] =
    ["channel_share", "claim", "clock", "early_receipt", "handled_topic", "migration", "secret"];
/// Those of them that the role cannot read at all: secrets, and receipts whose tenant is not known yet.
const CLOSED: [&str; 4] = ["channel_share", "early_receipt", "migration", "secret"];

async fn names(t: &Bench, sql: &str) -> Vec<String> {
    first_column(&t.texts(sql).await)
}

/// NTF-23: found by the catalogue, so that a new table cannot be forgotten.
#[tokio::test]
async fn ntf_23_every_table_is_behind_the_wall() {
    let t = &Bench::postgres().await;
    let open = "select c.relname from pg_class c where c.relnamespace = 'punctual'::regnamespace \
        and c.relkind = 'r' and not (c.relrowsecurity and exists (select 1 from pg_policy p \
            where p.polrelid = c.oid and p.polcmd = '*' and p.polpermissive)) order by 1";
    let said = "a migration that makes a table calls punctual.wall for it; \
        and a policy of another kind could let through what this one does not";
    assert_eq!(names(t, open).await, OPEN, "{said}");
    let policies = "select c.relname from pg_policy p join pg_class c on c.oid = p.polrelid \
        group by 1 having count(*) > 1";
    assert_eq!(names(t, policies).await, Vec::<String>::new(), "{said}");
    let owned = "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid \
        where c.relnamespace = 'punctual'::regnamespace and c.relkind = 'r' and a.attname = 'tenant_id' \
        and not exists (select 1 from pg_policy p where p.polrelid = c.oid \
            and pg_get_expr(p.polqual, p.polrelid) like '%tenant_id =%')";
    assert_eq!(
        names(t, owned).await,
        Vec::<String>::new(),
        "a policy goes by the column that says whose a row is"
    );
    let readable = "select c.relname from pg_class c where c.relnamespace = 'punctual'::regnamespace \
        and c.relkind = 'r' and not has_table_privilege('punctual_tenant', c.oid, 'select') order by 1";
    assert_eq!(names(t, readable).await, CLOSED);
}

/// NTF-23: two databases of a server that are migrated at the same moment make one role. Whoever cannot see
/// yet what the other has made tries once more.
#[tokio::test]
async fn ntf_23_a_role_that_another_database_is_making_is_waited_for() {
    let t = &Bench::postgres().await;
    t.texts("create sequence tries").await;
    let raise = "create or replace function punctual.raise_wall() returns void language plpgsql as $$ begin \
        if nextval('tries') < 3 then raise undefined_object; end if; end $$";
    t.texts(raise).await;
    t.store().migrate().await.unwrap();
    assert_eq!(t.count("select last_value from tries").await, 3);
}

/// Another tenant, with something of the most common nouns, made by the store.
async fn another(t: &Bench) -> Tenant {
    let new = NewTenant { slug: "beta".into(), name: "Beta".into(), ..NewTenant::default() };
    let beta = t.store().create_tenant(new).await.unwrap().tenant;
    let store = t.store();
    store.enqueue(beta, vec![message("unrouted").key("k")]).await.unwrap();
    store.declare_queue(beta, "orders").await.unwrap();
    store.enqueue(beta, vec![message("orders").id("shop", "1").key("k")]).await.unwrap();
    store.enqueue(beta, vec![message("orders")]).await.unwrap();
    store.acquire_lease(beta, "night", "them", seconds(60)).await.unwrap();
    beta
}

/// NTF-23: with no condition, a statement in the transaction of a tenant's verb touches no row of others.
#[tokio::test]
async fn ntf_23_a_forgotten_condition_shows_and_changes_nothing() {
    let t = &Bench::postgres().await;
    another(t).await;
    let before = t.dump().await;
    for sql in [
        "select * from punctual.message",
        "select * from punctual.work",
        "select * from punctual.lane",
        "select * from punctual.admitted",
        "select * from punctual.lease",
        "delete from punctual.message",
        "delete from punctual.work",
        "delete from punctual.admitted",
        "update punctual.lease set owner = 'us'",
        "update punctual.lane set paused = 1",
    ] {
        assert_eq!(t.store().execute_as(TENANT, sql).await.unwrap(), 0, "{sql}");
    }
    let theirs = "insert into punctual.admitted select 2, 'shop', 'x', '', 0";
    let refused = t.store().execute_as(TENANT, theirs).await.unwrap_err();
    assert!(format!("{refused:?}").contains("violates row-level security policy"), "{refused:?}");
    for sql in [
        "select * from punctual.early_receipt",
        "select * from punctual.migration",
        "select * from punctual.secret",
    ] {
        let refused = t.store().execute_as(TENANT, sql).await.unwrap_err();
        assert!(format!("{refused:?}").contains("permission denied"), "{sql}: {refused:?}");
    }
    before.assert_equals(&t.dump().await, "a statement without a condition");
}

/// NTF-23: the tenant itself sees all of it, and so does whoever works for all.
#[tokio::test]
async fn ntf_23_a_tenant_sees_its_own() {
    let t = &Bench::postgres().await;
    let beta = another(t).await;
    let all = |sql| async move { t.store().execute_as(beta, sql).await.unwrap() };
    assert_eq!(all("select * from punctual.message").await, 3);
    assert_eq!(all("select * from punctual.work").await, 3, "also what waits for its route");
    assert_eq!(all("select * from punctual.tenant").await, 1);
    assert_eq!(t.count("select count(*) from punctual.tenant").await, 2);
    assert_eq!(t.store().check_row_security().await.unwrap(), Some(true));
    assert_eq!(Bench::sqlite().await.store().check_row_security().await.unwrap(), None);
}

/// NTF-23: a verb leaves nothing of its tenant on the connection, which serves everybody next.
#[tokio::test]
async fn ntf_23_a_connection_forgets_whom_it_served() {
    let t = &Bench::postgres().await;
    let beta = another(t).await;
    // A pool has two connections at least: every one of them serves each kind of verb.
    let store = Store::open(t.place.url(), 2).unwrap();
    for n in 0..20 {
        assert_eq!(store.leases(beta, "", 10).await.unwrap().len(), 1, "round {n}");
        assert_eq!(store.tenants(0, 10).await.unwrap().len(), 2, "round {n}");
        assert!(store.leases(TENANT, "", 10).await.unwrap().is_empty(), "round {n}");
    }
    let reading = store.leases(beta, "", 10);
    tokio::time::timeout(std::time::Duration::ZERO, reading).await.ok();
    assert_eq!(store.tenants(0, 10).await.unwrap().len(), 2, "after a caller that went away");
}

/// A database that an ordinary role owns, and the address for that role.
async fn owned_by(login: &str, options: &str) -> (TestDatabase, String) {
    let place = TestDatabase::empty(Backend::Postgres).await.unwrap();
    let (server, database) = place.url().rsplit_once('/').unwrap();
    let make = format!("create role {login} login {options}");
    place.sql(&[make, format!("alter database {database} owner to {login}")]).await.unwrap();
    let (_, host) = server.split_once('@').unwrap();
    let url = format!("postgres://{login}@{host}/{database}");
    (place, url)
}

async fn works(store: &Store) {
    store.enqueue(TENANT, vec![message("orders").id("shop", "1")]).await.unwrap();
    store.declare_queue(TENANT, "orders").await.unwrap();
    assert_eq!(store.messages(TENANT, MessageId(0), 10).await.unwrap().len(), 1);
}

/// NTF-23: no superuser is needed. (The role of the tests' server was made by another, so since PostgreSQL 16
/// an owner who may make roles may not grant it to itself.)
#[tokio::test]
async fn ntf_23_an_owner_who_may_make_roles_has_the_wall() {
    let (place, url) = owned_by("owner_with_roles", "createrole").await;
    let store = Store::open(&url, 2).unwrap();
    store.migrate().await.unwrap();
    let stands = store.check_row_security().await.unwrap().unwrap();
    assert!(stands || granted_later(&place, &store, "owner_with_roles").await);
    works(&store).await;
}

async fn granted_later(place: &TestDatabase, store: &Store, login: &str) -> bool {
    place.sql(&[format!("grant punctual_tenant to {login}")]).await.unwrap();
    assert_eq!(store.migrate().await.unwrap(), (SCHEMA_VERSION, SCHEMA_VERSION));
    store.check_row_security().await.unwrap().unwrap()
}

/// NTF-23: an owner who may not is served all the same, is told, and gets the wall when somebody grants it.
#[tokio::test]
async fn ntf_23_an_owner_without_the_role_is_served_and_told() {
    let (place, url) = owned_by("plain_owner", "").await;
    let store = Store::open(&url, 2).unwrap();
    store.migrate().await.unwrap();
    assert_eq!(store.check_row_security().await.unwrap(), Some(false));
    works(&store).await;
    assert!(granted_later(&place, &store, "plain_owner").await);
    assert_eq!(store.execute_as(TENANT, "select * from punctual.message").await.unwrap(), 1);
}

/// NTF-23: a verb that demands a tenant goes through the door for it, but for one without a transaction.
#[test]
fn ntf_23_every_verb_of_a_tenant_goes_through_its_door() {
    let store = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut seen, mut past) = (0, Vec::new());
    let mut folders = vec![store];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            if !entry.components().any(|part| part.as_os_str() == "store") {
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            for verb in text.split("fn ").skip(1).filter(|verb| is_tenants(verb)) {
                seen += 1;
                if ["self.read(", "self.write(", "self\n            .write(", "self.write_alone("]
                    .iter()
                    .any(|past| verb.contains(past))
                {
                    past.push(verb.split('(').next().unwrap().to_owned());
                }
            }
        }
    }
    assert!(seen > 90, "only {seen} verbs were found");
    assert_eq!(past, ["enqueue_plain"], "these demand a tenant but do not use `self.of(tenant)`");
}

/// Whether the text of a function is that of a method which is given a tenant.
fn is_tenants(verb: &str) -> bool {
    let arguments = verb.split("->").next().unwrap_or_default();
    (arguments.contains("&self") || arguments.contains("&'a self")) && arguments.contains("tenant: Tenant")
}
