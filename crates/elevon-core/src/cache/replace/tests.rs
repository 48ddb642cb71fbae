//! Policies against naive models.
