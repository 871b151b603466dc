//! PLT-10 over HTTP: acquire, renew, release, look.

use crate::world::{Base, World};
use serde_json::json;

on_each! {
    plt_10_a_lease_is_held_by_one_owner,
    plt_10_a_stale_token_is_a_conflict,
    plt_10_leases_are_listed_by_name,
    plt_10_a_wrong_lease_is_refused_with_every_problem,
}

/// PLT-10
async fn plt_10_a_lease_is_held_by_one_owner(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let path = "/api/leases/nightly/acquire";
    let first = root.does(path, json!({"owner": "a", "seconds": 60}), 200).await;
    assert_eq!((&first["acquired"], &first["fencingToken"]), (&json!(true), &json!(1)), "{first}");
    assert_eq!(first["holder"], "a");
    let second = root.does(path, json!({"owner": "b", "seconds": 60}), 200).await;
    assert_eq!((&second["acquired"], &second["holder"]), (&json!(false), &json!("a")), "{second}");
    assert_eq!(second["expiresAt"], first["expiresAt"]);
    assert!(second.get("fencingToken").is_none(), "nobody's business but the holder's: {second}");
    let again = root.does(path, json!({"owner": "a", "seconds": 60}), 200).await;
    assert_eq!(again["acquired"], false, "nor to the same owner: {again}");

    world.advance("59s").await;
    let renew = json!({"owner": "a", "fencingToken": 1, "seconds": 60});
    let renewed = root.does("/api/leases/nightly/renew", renew, 200).await;
    assert_eq!((&renewed["held"], &renewed["fencingToken"]), (&json!(true), &json!(1)), "{renewed}");
    assert!(renewed["expiresAt"].as_str() > first["expiresAt"].as_str());
    let released =
        root.does("/api/leases/nightly/release", json!({"owner": "a", "fencingToken": 1}), 200).await;
    assert_eq!(released, json!({"released": true}));
    let shown = root.sees("/api/leases/nightly").await;
    assert_eq!(
        (&shown["held"], &shown["holder"], &shown["lastHolder"]),
        (&json!(false), &json!(null), &json!("a"))
    );
    let next = root.does(path, json!({"owner": "b"}), 200).await;
    assert_eq!((&next["acquired"], &next["fencingToken"]), (&json!(true), &json!(2)), "{next}");
}

/// PLT-10: and changes nothing.
async fn plt_10_a_stale_token_is_a_conflict(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    root.does("/api/leases/nightly/acquire", json!({"owner": "a", "seconds": 60}), 200).await;
    world.advance("60s").await;
    for round in ["ended", "taken"] {
        if round == "taken" {
            root.does("/api/leases/nightly/acquire", json!({"owner": "b", "seconds": 60}), 200).await;
        }
        let before = root.sees("/api/leases/nightly").await;
        for (verb, owner, token) in [
            ("renew", "a", 1),
            ("release", "a", 1),
            ("renew", "a", 2),
            ("release", "b", 1),
            ("renew", "b", 3),
        ] {
            let body = json!({"owner": owner, "fencingToken": token});
            let reply = root.post(&format!("/api/leases/nightly/{verb}"), body).await;
            reply.problem(409);
        }
        assert_eq!(root.sees("/api/leases/nightly").await, before, "{round}");
    }
    let other = world.tenant("acme").await;
    other.post("/api/leases/nightly/release", json!({"owner": "b", "fencingToken": 2})).await.problem(409);
    other.get("/api/leases/nightly").await.problem(404);
}

async fn plt_10_leases_are_listed_by_name(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    for name in ["b", "c", "a", "d%2Fe"] {
        root.does(&format!("/api/leases/{name}/acquire"), json!({"owner": "me"}), 200).await;
    }
    let first = root.sees("/api/leases?limit=3").await;
    let names: Vec<&str> =
        first["items"].as_array().unwrap().iter().map(|l| l["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = root.sees(&format!("/api/leases?limit=3&cursor={cursor}")).await;
    assert_eq!((&rest["items"][0]["name"], &rest["nextCursor"]), (&json!("d/e"), &json!(null)));
}

/// PLT-29
async fn plt_10_a_wrong_lease_is_refused_with_every_problem(base: Base) {
    let world = World::manual(base).await;
    let root = world.root();
    let wrong = root.post("/api/leases/nightly/acquire", json!({"seconds": -1, "colour": 1})).await;
    assert_eq!(wrong.problem(422), ["colour", "owner", "seconds"]);
    let wrong = root.post("/api/leases/nightly/renew", json!({"owner": "a", "fencingToken": "x"})).await;
    assert_eq!(wrong.problem(422), ["fencingToken"]);
    let wrong = root.post("/api/leases/%20/acquire", json!({"owner": "a"})).await;
    assert_eq!(wrong.problem(422), ["name"]);
    assert_eq!(root.sees("/api/leases").await["items"], json!([]));
}
