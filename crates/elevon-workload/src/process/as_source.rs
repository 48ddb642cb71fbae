//! A process of a job as a source of the loop.

use elevon_cache::stats::CacheUse;
use elevon_core::control::pressure::ContextState;

use super::*;
use crate::cpu::SchedulerLock;
use crate::source::{Alone, Source};

impl Source for Process {
    #[inline]
    fn task(&self) -> TaskId {
        self.task()
    }
    #[inline]
    fn tenant(&self) -> TenantId {
        self.tenant()
    }
    fn depth(&self) -> usize {
        self.depth()
    }
    fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes()
    }
    fn start(&mut self, now: Instant) {
        self.start(now);
    }
    fn started(&self) -> Option<Instant> {
        self.started()
    }
    fn ended(&self) -> Option<Instant> {
        self.ended()
    }
    fn stats(&self) -> &JobStats {
        self.stats()
    }
    fn progressed(&self) -> Progressed {
        self.progressed()
    }
    fn stats_at(&self, now: Instant) -> JobStats {
        self.stats_at(now)
    }
    fn cache_used(&self) -> Option<&CacheUse> {
        self.cache_used()
    }
    fn logger(&self) -> Option<&Logger> {
        self.logger()
    }
    fn in_use(&self) -> usize {
        self.in_use()
    }
    fn progress(&self, now: Instant) -> u64 {
        self.progress(now)
    }
    fn delay(&mut self, until: Instant) {
        self.delay(until);
    }
    fn is_asleep(&self, now: Instant) -> bool {
        self.is_asleep(now)
    }
    fn draws_alone(&self) -> bool {
        self.draws_alone()
    }
    fn wake_after(&mut self, now: Instant, delay: Nanos) {
        self.wake_after(now, delay);
    }
    fn context(&self, now: Instant) -> ContextState {
        self.context(now)
    }
    fn terminate(&mut self) {
        self.terminate();
    }
    #[inline]
    fn next_wakeup(&self) -> Option<Instant> {
        self.next_wakeup()
    }
    #[inline(always)]
    fn poll(&mut self, now: Instant) -> Poll {
        self.poll(now)
    }
    #[inline]
    fn goes_alone(&self) -> bool {
        self.goes_alone()
    }
    #[inline(always)]
    fn is_alone(&self, now: Instant) -> bool {
        self.is_alone(now)
    }
    #[inline(always)]
    fn go_alone(&mut self, now: Instant, until: Instant, is_only: bool) -> Alone {
        self.go_alone(now, until, is_only)
    }
    #[inline(always)]
    fn take_alone(&mut self, now: Instant) -> Io {
        self.take_alone(now)
    }
    fn keep_alone(&mut self) {
        self.keep_alone();
    }
    #[inline]
    fn is_busy(&self, now: Instant) -> bool {
        self.is_busy(now)
    }
    #[inline]
    fn take(&mut self) -> Option<Io> {
        self.take()
    }
    #[inline]
    fn plugs(&self, ios: usize) -> bool {
        self.plugs(ios)
    }
    #[inline]
    fn on_submitted(&mut self, now: Instant, blocked: bool) {
        self.on_submitted(now, blocked);
    }
    #[inline]
    fn is_blocked(&self) -> bool {
        self.is_blocked()
    }
    #[inline]
    fn unblocked(&mut self, now: Instant) {
        self.unblocked(now);
    }
    #[inline(always)]
    fn complete(&mut self, _now: Instant, token: u64, status: Status) -> (Op, Bytes) {
        self.complete(token, status)
    }
    #[inline]
    fn fill(&mut self, token: u64, buffer: &mut [u8]) {
        self.fill(token, buffer);
    }
    #[inline]
    fn wants_check(&self, token: u64) -> bool {
        self.wants_check(token)
    }
    fn check(&mut self, token: u64, buffer: &[u8]) {
        self.check(token, buffer);
    }
    #[inline]
    fn pass_lock(&mut self, now: Instant, lock: &mut SchedulerLock) {
        self.pass_lock(now, lock);
    }
    fn latency_depth(&self) -> Option<u32> {
        self.latency_depth()
    }
    fn standing(&self) -> Standing {
        self.standing()
    }
    fn allow(&mut self, ios: u64) {
        self.allow(ios);
    }
}
