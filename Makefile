# A thin cover over ./dev, for fingers used to make.
.PHONY: help run setup test check fmt lint types imports docs test-services test-engine lab bench lock
help:
	@./dev
run setup test check fmt lint types imports docs test-services test-engine lab bench lock:
	@./dev $@
