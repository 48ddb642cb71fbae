//! A claim of a disk of another server: of the servers on this machine only one writes it.
//!
//! The claim is a socket in the abstract namespace, named after the export. The kernel lets one
//! process have the name, and frees it when that process has ended, however it did. Servers in
//! another network namespace or on another machine have names of their own.

use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::{UpstreamAddress, UpstreamError};
use crate::net::listen::Address;
use crate::net::peer::Peer;

/// A claim of a disk of another server, which lasts until it is dropped.
#[derive(Debug)]
pub struct UpstreamClaim(#[expect(dead_code, reason = "it is held, not used")] UnixListener);

impl UpstreamClaim {
    /// Claims an export of a server.
    ///
    /// # Errors
    /// Another process of this machine has claimed it, or the system makes no socket.
    pub fn take(address: &UpstreamAddress) -> Result<Self, UpstreamError> {
        let place = SocketAddr::from_abstract_name(name_of(address));
        let place = place.map_err(UpstreamError::Machine)?;
        match UnixListener::bind_addr(&place) {
            Ok(listener) => Ok(Self(listener)),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                // A holder that has left meanwhile is not known; a second attempt finds it gone.
                let holder = UnixStream::connect_addr(&place).ok();
                let known = holder.and_then(|socket| elevon_host::peer_credentials(&socket));
                let holder = known.map_or(Peer::Unknown, Peer::Process);
                Err(UpstreamError::Claimed { export: address.to_string(), holder })
            }
            Err(error) => Err(UpstreamError::Machine(error)),
        }
    }
}

/// Returns the name that all servers give the claim of an export: paths without links, and hosts in
/// small letters. The name of a socket has at most 107 bytes, so that it is a hash (64-bit FNV-1a),
/// the same in each build of each server.
fn name_of(address: &UpstreamAddress) -> String {
    let server = match &address.server {
        Address::Unix(path) => {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            format!("unix:{}", path.display())
        }
        Address::Tcp(place) => format!("tcp:{}", place.to_lowercase()),
    };
    let text = format!("{server}\n{}", address.export);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("elevon-upstream-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::UpstreamClaim;
    use crate::disks::upstream::{UpstreamAddress, UpstreamError};

    fn address(text: &str) -> UpstreamAddress {
        text.parse().expect("an address")
    }

    #[test]
    fn an_export_is_claimed_once_at_a_time() {
        let host = format!("claim-{}.example", std::process::id());
        let one = address(&format!("nbd://{host}/a"));
        let claim = UpstreamClaim::take(&one).expect("it is free");
        let same = address(&format!("nbds://{}:10809/a", host.to_uppercase()));
        let Err(UpstreamError::Claimed { holder, .. }) = UpstreamClaim::take(&same) else {
            panic!("it is taken")
        };
        assert!(holder.to_string().contains(&format!("pid {}", std::process::id())), "{holder}");
        let other = UpstreamClaim::take(&address(&format!("nbd://{host}/b")));
        assert!(other.is_ok(), "another export");
        drop(claim);
        assert!(UpstreamClaim::take(&one).is_ok(), "it is free again");
    }
}
