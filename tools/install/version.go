package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// currentVersion returns the version of the checkout in the working directory.
func currentVersion(ctx context.Context) string {
	return versionOf(
		git(ctx, "describe", "--tags", "--long", "--match", "v[0-9]*"),
		git(ctx, "rev-list", "--count", "HEAD"),
	)
}

// described is a tag such as v0.1.0 or v0.1.0-rc.1 with the number of commits after it.
var described = regexp.MustCompile(`^v(\d+\.\d+)\.(\d+)(?:-[0-9A-Za-z.-]+)?-(\d+)-g[0-9a-f]+$`)

// versionOf makes a version of what git describes and of the number of commits. Commits
// after a tag count as patches, so that a later build has a later version.
func versionOf(description, commits string) string {
	if match := described.FindStringSubmatch(description); match != nil {
		patch, _ := strconv.Atoi(match[2])
		after, _ := strconv.Atoi(match[3])
		return fmt.Sprintf("%s.%d", match[1], patch+after)
	}
	count, _ := strconv.Atoi(commits) // 0 outside a repository
	return fmt.Sprintf("0.0.%d", count)
}

// git returns what git prints, or "" if it fails, such as in an archive without a
// repository.
func git(ctx context.Context, args ...string) string {
	output, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(output))
}
