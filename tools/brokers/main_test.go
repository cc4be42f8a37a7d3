package main

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want int
	}{
		"nothing":              {nil, 2},
		"unknown":              {[]string{"restart"}, 2},
		"arguments too many":   {[]string{"up", "x"}, 2},
		"exec without command": {[]string{"exec", "--versions", "4.0"}, 2},
		"down with versions":   {[]string{"down", "--versions", "4.0"}, 2},
		"bad version":          {[]string{"prepare", "--versions", "4"}, 1},
		"status before up":     {[]string{"status", "--state", t.TempDir()}, 1},
		"down before up":       {[]string{"down", "--state", t.TempDir()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := report(run(nil, test.args)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestCommandExitCode(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell:", err)
	}
	shell := func(script string) error {
		return runCommand(nil, []string{"/bin/sh", "-c", script}, []string{"NAME=value"})
	}
	if err := shell(`test "$NAME" = value`); err != nil {
		t.Errorf("success: %v", err)
	}
	if err := shell("exit 7"); err != exitCode(7) { //nolint:errorlint // it is returned as it is
		t.Errorf("exit 7: %v", err)
	}
	var code exitCode
	if err := shell("kill -9 $$"); err == nil || errors.As(err, &code) {
		t.Errorf("killed: %v", err)
	}

	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if got := report(runCommand(signals, []string{"/bin/sh", "-c", "sleep 60"}, nil)); got != 143 {
		t.Errorf("ended by a signal: %d, want 143", got)
	}
}

func TestChosenVersions(t *testing.T) {
	t.Setenv(rabbit.EnvVersions, "")
	if got, err := (&options{}).chosen(); err != nil || !reflect.DeepEqual(got, rabbit.Versions()) {
		t.Errorf("by default: %v, %v", got, err)
	}
	t.Setenv(rabbit.EnvVersions, "4.0")
	if got, err := (&options{}).chosen(); err != nil || !reflect.DeepEqual(got, []string{"4.0"}) {
		t.Errorf("by the environment: %v, %v", got, err)
	}
	if got, err := (&options{versions: "3.10,4.3"}).chosen(); err != nil || !reflect.DeepEqual(got, []string{"3.10", "4.3"}) {
		t.Errorf("by the flag: %v, %v", got, err)
	}
}

func TestPrintEnv(t *testing.T) {
	var text strings.Builder
	printEnv(&text, []*rabbit.Broker{
		{Endpoint: "http://a:1", AMQP: "amqp://a:2", Username: "me", Password: "it's"},
		{Endpoint: "http://[::1]:3/p", AMQP: "amqp://b:4", Username: "guest", Password: "guest"},
	})
	want := `export RABBITMQ_TEST_ENDPOINTS='http://me:it%27s@a:1,http://guest:guest@[::1]:3/p'
export RABBITMQ_TEST_AMQP_ENDPOINTS='amqp://a:2,amqp://b:4'
`
	if text.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", text.String(), want)
	}
}
