package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestExitCodes(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want int
	}{
		"nothing":            {nil, 2},
		"unknown":            {[]string{"restart"}, 2},
		"arguments too many": {[]string{"up", "x"}, 2},
		"down with versions": {[]string{"down", "--versions", "4.0"}, 2},
		"bad version":        {[]string{"prepare", "--versions", "4"}, 1},
		"status before up":   {[]string{"status", "--state", t.TempDir()}, 1},
		"down before up":     {[]string{"down", "--state", t.TempDir()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := report(run(nil, test.args)); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
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
