//! BFQ.
mod entity;
mod finish_tree;
mod service_tree;
mod wf2q;
