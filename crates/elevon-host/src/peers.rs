//! The process at the other end of a Unix socket, and the names of users and groups.

use std::ffi::CString;
use std::mem;
use std::os::fd::AsRawFd;
use std::ptr;

/// The process that connected to a Unix socket, as the kernel noted it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its process id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its other groups, as far as the kernel tells them.
    pub groups: Vec<u32>,
}

/// Returns who connected to a socket; `None` for a socket of another kind.
pub fn peer_credentials(socket: &impl AsRawFd) -> Option<Credentials> {
    let mut of = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = mem::size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: an open descriptor, and memory of the length that is told.
    let result = unsafe {
        let value = (&raw mut of).cast();
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            value,
            &raw mut length,
        )
    };
    // Of TCP there are none: the process is 0 and the user is -1.
    let pid = u32::try_from(of.pid).ok().filter(|_| result == 0 && of.uid != u32::MAX)?;
    Some(Credentials { pid, uid: of.uid, gid: of.gid, groups: peer_groups(socket) })
}

/// The most groups that a process may have.
const MAX_GROUPS: usize = 65_536;

fn peer_groups(socket: &impl AsRawFd) -> Vec<u32> {
    let mut groups: Vec<u32> = vec![0; 32];
    loop {
        let mut length = mem::size_of_val(&*groups) as libc::socklen_t;
        // SAFETY: an open descriptor, and memory of the length that is told.
        let result = unsafe {
            let value = groups.as_mut_ptr().cast();
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                value,
                &raw mut length,
            )
        };
        let found = length as usize / mem::size_of::<u32>();
        if result == 0 {
            groups.truncate(found);
            return groups;
        }
        let is_too_short = std::io::Error::last_os_error().raw_os_error() == Some(libc::ERANGE);
        if !is_too_short || found > MAX_GROUPS || found <= groups.len() {
            return Vec::new();
        }
        groups.resize(found, 0);
    }
}

/// Bytes for an entry of a user or a group. The system says if they are too few.
const ENTRY: usize = 64 << 10;

/// Returns the number of a user; `None` if the system knows none of that name.
pub fn user_id(name: &str) -> Option<u32> {
    let (name, mut memory) = (CString::new(name).ok()?, vec![0; ENTRY]);
    // SAFETY: all-zero bytes are a valid `passwd` value.
    let mut entry: libc::passwd = unsafe { mem::zeroed() };
    let mut found = ptr::null_mut();
    // SAFETY: a text with its end, and memory of the length that is told.
    unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            &raw mut entry,
            memory.as_mut_ptr(),
            memory.len(),
            &raw mut found,
        )
    };
    (!found.is_null()).then_some(entry.pw_uid)
}

/// Returns the number of a group; `None` if the system knows none of that name.
pub fn group_id(name: &str) -> Option<u32> {
    let (name, mut memory) = (CString::new(name).ok()?, vec![0; ENTRY]);
    // SAFETY: all-zero bytes are a valid `group` value.
    let mut entry: libc::group = unsafe { mem::zeroed() };
    let mut found = ptr::null_mut();
    // SAFETY: a text with its end, and memory of the length that is told.
    unsafe {
        libc::getgrnam_r(
            name.as_ptr(),
            &raw mut entry,
            memory.as_mut_ptr(),
            memory.len(),
            &raw mut found,
        )
    };
    (!found.is_null()).then_some(entry.gr_gid)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_peer_of_a_unix_socket_is_known() {
        let (one, _other) = UnixStream::pair().expect("sockets");
        let of = peer_credentials(&one).expect("a Unix socket");
        assert_eq!(of.pid, std::process::id());
        assert_eq!(of.uid, std::fs::metadata("/proc/self").expect("a process").uid());
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let tcp =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        assert_eq!(peer_credentials(&tcp), None);
    }

    #[test]
    fn names_of_users_and_groups_have_numbers() {
        assert_eq!((user_id("root"), group_id("root")), (Some(0), Some(0)));
        assert_eq!(
            (user_id("no such user"), group_id("no such group"), user_id("a\0b")),
            (None, None, None)
        );
    }
}
