use super::*;

#[test]
fn a_query_is_read_as_it_was_meant() {
    let callback =
        Callback { method: "GET", url: "https://x/y?a=1&b=2%203#c=4", headers: &[("X-A", "v")], body: b"" };
    assert_eq!(callback.query("b").as_deref(), Some("2 3"));
    assert_eq!((callback.query("c"), callback.header("x-a")), (None, Some("v")));
}
