//! vhost-user-blk: guests that share their memory, in `accept` and `session` the messages of their
//! front ends, in `rings` their queues, and in `guest_queues` what the thread of the device does
//! with these.

mod accept;
mod guest_disk;
mod guest_queues;
mod rings;
mod session;
mod shared_rings;

pub(crate) use accept::accept;
