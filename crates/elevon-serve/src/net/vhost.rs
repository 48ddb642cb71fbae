//! vhost-user-blk: guests that share their memory, in `accept` and `session` the messages of their
//! front ends, and in `rings` what the thread of the device does with their queues.

mod accept;
mod guest_disk;
mod rings;
mod session;
mod shared_rings;

pub(crate) use accept::accept;
