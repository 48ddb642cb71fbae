//! The other end of a connection: an address, or the process that connected to a Unix socket.

use std::fmt;
use std::net::SocketAddr;

use elevon_host::Credentials;

/// The other end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peer {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// The address that it connected from.
    Address(SocketAddr),
    /// The process that connected.
    Process(Credentials),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => write!(f, "unknown"),
            Self::Address(address) => write!(f, "{address}"),
            Self::Process(of) => write!(f, "pid {} of uid {}", of.pid, of.uid),
        }
    }
}

/// A client that may open an export, by its process: `uid:1000`, `gid:6`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Processes of a user.
    User(u32),
    /// Processes that have a group.
    Group(u32),
}

impl Owner {
    /// Reads a text of the form `uid:1000` or `gid:6`; names of users and groups stand for their
    /// numbers. `None` for a text of another form, which is a name in a certificate.
    ///
    /// # Errors
    /// The name that the system does not know.
    pub fn of_text(text: &str) -> Option<Result<Self, String>> {
        let (kind, name) = text.split_once(':')?;
        let number = name.parse::<u32>().ok();
        let unknown = |what: &str| format!("{text}: the system knows no {what} {name}");
        match kind {
            "uid" => {
                let id = number.or_else(|| elevon_host::user_id(name));
                Some(id.map(Self::User).ok_or_else(|| unknown("user")))
            }
            "gid" => {
                let id = number.or_else(|| elevon_host::group_id(name));
                Some(id.map(Self::Group).ok_or_else(|| unknown("group")))
            }
            _ => None,
        }
    }

    /// Returns true if a peer is one of these processes.
    fn is(self, peer: &Peer) -> bool {
        let Peer::Process(of) = peer else { return false };
        match self {
            Self::User(uid) => of.uid == uid,
            Self::Group(gid) => of.gid == gid || of.groups.contains(&gid),
        }
    }
}

/// Returns true if one of the clients that are given is a peer, by its process.
pub(crate) fn is_owner(clients: &[String], peer: &Peer) -> bool {
    clients.iter().filter_map(|client| Owner::of_text(client)?.ok()).any(|owner| owner.is(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_their_user_and_all_their_groups() {
        let peer = Peer::Process(Credentials { pid: 7, uid: 1000, gid: 1000, groups: vec![6, 44] });
        let is = |client: &str, peer: &Peer| is_owner(&[client.to_owned()], peer);
        for client in ["uid:1000", "gid:1000", "gid:6", "gid:44"] {
            assert!(is(client, &peer), "{client}");
        }
        for client in ["uid:0", "uid:6", "gid:0", "1000", "uid:no such user", "pid:7"] {
            assert!(!is(client, &peer), "{client}");
        }
        assert!(is(
            "uid:root",
            &Peer::Process(Credentials { pid: 1, uid: 0, gid: 0, groups: Vec::new() })
        ));
        assert!(!is("uid:0", &Peer::Unknown), "over TCP there is no user");
        assert_eq!(peer.to_string(), "pid 7 of uid 1000");
        assert_eq!(Owner::of_text("alice"), None);
        let error =
            Owner::of_text("gid:no such group").expect("a group").expect_err("it is unknown");
        assert_eq!(error, "gid:no such group: the system knows no group no such group");
    }
}
