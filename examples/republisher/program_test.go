package main

import (
	"fmt"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// prefetch of the programs under test.
const prefetch = 5

// moved is what the program logs for each message.
const moved = "INFO moved"

func start(t *testing.T, path, amqpURL string) *process.Process {
	t.Helper()
	return process.Start(t, path, amqpURL, "-prefetch", fmt.Sprint(prefetch))
}
