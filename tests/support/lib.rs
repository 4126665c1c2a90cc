//! What every suite shares: a real server per test, waiting for a state.
