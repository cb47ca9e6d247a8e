"""Many runs: studies over suites of windows, what their records show, and the check that nothing got worse."""
