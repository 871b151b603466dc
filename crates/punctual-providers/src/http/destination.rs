//! Where a channel may send to.
//!
//! Promised: a request goes to the host that the configuration names, at a globally reachable address. A
//! host on this machine, in a private network or at a cloud's metadata service, a port below 1024 other
//! than 80 and 443, and plain http with a secret are refused unless the channel's `allow_host` names the
//! host. A name is judged by every address that it resolves to, and the connection goes to the addresses
//! that were judged. An allowed name may be anywhere but at a link-local or metadata address; those must
//! be named as the address that they are. Not promised: that a public host is the provider.

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The setting that allows a host by its name.
pub(crate) const ALLOW_HOST: &str = "allow_host";
/// The longest name, and the longest label of one, that DNS has, in bytes.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;
/// Ports below this are of other services, but for those of HTTP.
const PORT_MIN: u16 = 1_024;

/// What kind of address it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Global,
    /// This machine, or a network that only its members reach.
    Inner(&'static str),
    /// Where clouds tell credentials to whoever asks.
    Metadata(&'static str),
}

/// The destinations of one channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations {
    /// The host that the configuration allows, as URLs write it.
    allowed: Option<String>,
    has_secret: bool,
}

impl Destinations {
    /// Reads the host that is allowed, if there is one.
    pub(super) fn new(allow_host: Option<&str>, has_secret: bool) -> Result<Self, String> {
        let allowed = allow_host.map(parse_host).transpose()?;
        Ok(Self { allowed, has_secret })
    }

    /// Parses a URL that a channel may send to.
    pub(super) fn parse(&self, written: &str) -> Result<Url, String> {
        check_writing(written)?;
        let url = Url::parse(written).map_err(|error| format!("is not an address: {error}"))?;
        let host = url.host_str().unwrap_or_default();
        if self.is_allowed(host) {
            return Ok(url);
        }
        let meant = format!("if that is meant, set `{ALLOW_HOST} = \"{host}\"` for the channel");
        check_host(host).map_err(|said| format!("{said}; {meant}"))?;
        if url.port().is_some_and(|port| port < PORT_MIN && port != 80 && port != 443) {
            return Err(format!("has a port of another service than HTTP; {meant}"));
        }
        if url.scheme() == "http" && self.has_secret {
            return Err(format!("is plain http, which would show the channel's secrets: use https; {meant}"));
        }
        Ok(url)
    }

    /// Checks every address that a name resolves to.
    pub(super) fn check_answers(&self, host: &str, answers: &[IpAddr]) -> Result<(), String> {
        let wrong = answers.iter().find_map(|address| match scope(*address) {
            Scope::Global => None,
            Scope::Inner(_) if self.is_allowed(host) => None,
            Scope::Inner(what) | Scope::Metadata(what) => Some((address, what)),
        });
        match wrong {
            None => Ok(()),
            Some((address, what)) => {
                Err(format!("`{host}` resolves to {address}, {what}: set `{ALLOW_HOST}` if that is meant"))
            }
        }
    }

    fn is_allowed(&self, host: &str) -> bool {
        self.allowed.as_deref().is_some_and(|allowed| allowed.eq_ignore_ascii_case(host))
    }
}

/// Resolves names, and fails for those that lead where the channel may not send.
#[derive(Debug)]
pub(super) struct CheckedResolver(pub(super) Arc<Destinations>);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let destinations = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let answers: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
            destinations.check_answers(name.as_str(), &answers)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The host as URLs write it.
fn parse_host(text: &str) -> Result<String, String> {
    let text = text.trim();
    let bracketed =
        if text.contains(':') && !text.starts_with('[') { format!("[{text}]") } else { text.into() };
    let url = Url::parse(&format!("https://{bracketed}/")).ok();
    let host = url.filter(|url| url.port().is_none() && url.path() == "/" && url.username().is_empty());
    host.and_then(|url| url.host_str().map(str::to_owned)).ok_or_else(|| {
        "must be one host as it stands in the URL, without a port, such as \"127.0.0.1\"".to_owned()
    })
}

/// Refuses what parsers read differently.
fn check_writing(written: &str) -> Result<(), String> {
    let rest = written.strip_prefix("https://").or_else(|| written.strip_prefix("http://"));
    let Some(rest) = rest else { return Err("must begin with https:// or http://".into()) };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err("has no host".into());
    }
    if authority.contains('@') {
        return Err("must not have a name and a password in it".into());
    }
    if authority.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("has characters in its host that no host has".into());
    }
    Ok(())
}

fn check_host(host: &str) -> Result<(), String> {
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    if let Ok(address) = literal {
        return match scope(address) {
            Scope::Global => Ok(()),
            Scope::Inner(what) | Scope::Metadata(what) => Err(format!("leads to {address}, {what}")),
        };
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    if name == "localhost" || name.ends_with(".localhost") {
        return Err(format!("leads to {host}, this machine"));
    }
    let label = |label: &str| !label.is_empty() && label.len() <= LABEL_BYTES_MAX;
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(label) {
        return Err("has a host that is no name: a part of it is empty or too long".into());
    }
    Ok(())
}

fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(address) => scope_v4(address),
        IpAddr::V6(address) => scope_v6(address),
    }
}

/// By the IANA registry of special-purpose addresses.
fn scope_v4(address: Ipv4Addr) -> Scope {
    match address.octets() {
        [169, 254, ..] => Scope::Metadata("a link-local address"),
        [100, 100, 100, 200] | [168, 63, 129, 16] => Scope::Metadata("a metadata service"),
        [127, ..] | [0, ..] => Scope::Inner("this machine"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Scope::Inner("a private address"),
        [100, 64..=127, ..] => Scope::Inner("a shared address"),
        [192, 0, 0 | 2, _] | [192, 88, 99, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            Scope::Inner("a reserved address")
        }
        [224..=255, ..] => Scope::Inner("a reserved address"),
        _ => Scope::Global,
    }
}

/// Global addresses are in 2000::/3; those with an IPv4 address in them are as that one is.
fn scope_v6(address: Ipv6Addr) -> Scope {
    let [a, b, c, .., y, z] = address.segments();
    let embedded = Ipv4Addr::from((u32::from(y) << 16) | u32::from(z));
    let zeros = |from: usize, to: usize| address.segments()[from..to].iter().all(|part| *part == 0);
    match (a, b) {
        (0, 0) if zeros(2, 5) && address.segments()[5] == 0xffff => scope_v4(embedded),
        (0x64, 0xff9b) if zeros(2, 6) => scope_v4(embedded),
        (0xfe80..=0xfebf, _) => Scope::Metadata("a link-local address"),
        (0xfd00, 0xec2) | (0xfd20, 0xce) => Scope::Metadata("a metadata service"),
        (0, 0) if zeros(2, 7) && z <= 1 => Scope::Inner("this machine"),
        (0xfc00..=0xfdff, _) => Scope::Inner("a private address"),
        (0x2001, 0..=0x1ff | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff) => Scope::Inner("a reserved address"),
        (0x2620, 0x4f) if c == 0x8000 => Scope::Inner("a reserved address"),
        (0x2000..=0x3fff, _) => Scope::Global,
        _ => Scope::Inner("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn answers(case: &Value, name: &str) -> Vec<IpAddr> {
        let all = case[name].as_array().into_iter().flatten();
        all.map(|address| address.as_str().unwrap().parse().unwrap()).collect()
    }

    fn judge(destinations: &Destinations, url: &str, answers: &[IpAddr]) -> Result<(), String> {
        let url = destinations.parse(url)?;
        destinations.check_answers(url.host_str().unwrap(), answers)
    }

    /// SECURITY.md, "Destinations": every case of `tests/data/ssrf.json`, literals in all their forms.
    #[test]
    fn hosts_that_are_not_public_are_refused() {
        let cases: Value = serde_json::from_str(include_str!("../../tests/data/ssrf.json")).unwrap();
        let destinations = Destinations::default();
        for case in cases["cases"].as_array().unwrap() {
            let url = case["url"].as_str().unwrap();
            let mut said = judge(&destinations, url, &answers(case, "resolves"));
            if let Some(next) = case["redirectTo"].as_str() {
                // No redirect is followed; where one leads is judged here all the same.
                let next = Url::parse(url).unwrap().join(next).unwrap();
                said = said.and(judge(&destinations, next.as_str(), &answers(case, "redirectResolves")));
            }
            assert_eq!(said.is_ok(), case["allowed"] == true, "{case}: {said:?}");
        }
    }

    /// SECURITY.md, "Destinations": only what `allow_host` names is allowed.
    #[test]
    fn a_host_is_allowed_by_its_name_alone() {
        let table = [
            ("127.0.0.1", "http://127.0.0.1:8080/", true),
            ("127.0.0.1", "http://0x7f000001:8080/", true),
            ("127.0.0.1", "http://127.0.0.2/", false),
            ("127.0.0.1", "http://localhost/", false),
            ("::1", "https://[::1]:99/", true),
            ("[::1]", "https://[0:0::1]/", true),
            ("LOCALHOST", "http://localhost:25/", true),
            ("169.254.169.254", "http://169.254.169.254/", true),
            ("api.example", "http://api.example/", true),
            ("api.example", "http://api.example.evil/", false),
        ];
        for (allowed, url, want) in table {
            let destinations = Destinations::new(Some(allowed), true).unwrap();
            assert_eq!(destinations.parse(url).is_ok(), want, "{allowed}: {url}");
        }
        for wrong in ["", "127.0.0.1:80", "http://x", "a/b", "a b", "a@b", "a,b/"] {
            assert!(Destinations::new(Some(wrong), true).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_allowed_name_does_not_lead_to_a_metadata_service() {
        let destinations = Destinations::new(Some("relay.internal"), true).unwrap();
        let check = |address: &str| destinations.check_answers("relay.internal", &[address.parse().unwrap()]);
        assert!(check("10.0.0.1").is_ok() && check("::1").is_ok() && check("64:ff9b::a00:1").is_ok());
        for address in ["169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254", "64:ff9b::a9fe:a9fe"] {
            assert!(check(address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_secret_does_not_go_over_plain_http() {
        let parse = |has_secret| Destinations::new(None, has_secret).unwrap().parse("http://api.example/");
        assert!(parse(false).is_ok());
        assert!(parse(true).unwrap_err().contains("plain http"));
    }

    #[tokio::test]
    async fn a_name_is_judged_where_it_resolves_to() {
        let resolve = |allowed: Option<&str>| {
            let destinations = Arc::new(Destinations::new(allowed, false).unwrap());
            CheckedResolver(destinations).resolve("localhost".parse().unwrap())
        };
        assert!(resolve(Some("localhost")).await.is_ok());
        let said = resolve(None).await.err().unwrap().to_string();
        assert!(said.contains("`localhost` resolves to ") && said.contains("this machine"), "{said}");
    }
}
