package rabbit

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseGiven(t *testing.T) {
	got, err := parseGiven("http://localhost:15672, https://me:p%40ss@[::1]:15671/prefix/ ,http://u@host", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []*Broker{
		{Endpoint: "http://localhost:15672", Username: "guest", Password: "guest", Source: "address"},
		{Endpoint: "https://[::1]:15671/prefix", Username: "me", Password: "p@ss", Source: "address"},
		{Endpoint: "http://host", Username: "u", Source: "address"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestParseGivenRefuses(t *testing.T) {
	const password = "hush"
	for name, test := range map[string]struct{ endpoints, amqp, want string }{
		"no URL":             {"http://x:" + password + "@", "", "entry 1"},
		"second of another":  {"http://a,amqp://u:" + password + "@b", "", "entry 2"},
		"control characters": {"http://u:" + password + "@a\x7f", "", "entry 1"},
		"too few addresses":  {"http://a,http://b", "amqp://u:" + password + "@a", "1 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseGiven(test.endpoints, test.amqp)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
			if strings.Contains(err.Error(), password) {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestParseVersions(t *testing.T) {
	got, err := ParseVersions(" 3.10, 4.0,,")
	if want := []string{"3.10", "4.0"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"4", "4.0.5", "latest", "4.0 4.3"} {
		if _, err := ParseVersions(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// fakeBroker answers like the management API of a broker with an AMQP listener.
func fakeBroker(t *testing.T, version string) string {
	t.Helper()
	amqp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { amqp.Close() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if r.URL.Path != "/api/overview" || user != "me" || password != "p@ss" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"rabbitmq_version":%q,"listeners":[
			{"protocol":"clustering","port":25672},{"protocol":"amqp","ip_address":"::","port":%d}]}`,
			version, amqp.Addr().(*net.TCPAddr).Port)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("me", "p@ss")
	return u.String()
}

func TestGivenBrokers(t *testing.T) {
	addresses := []string{fakeBroker(t, "3.10.8"), fakeBroker(t, "4.0.5"), fakeBroker(t, "4.0.9")}
	t.Setenv(EnvEndpoints, strings.Join(addresses, ","))
	t.Setenv(EnvAMQPEndpoints, "")
	t.Setenv(EnvVersions, "")

	all, err := All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range all {
		names = append(names, b.Name)
		if !strings.HasPrefix(b.AMQP, "amqp://me:p%40ss@127.0.0.1:") {
			t.Errorf("AMQP address %q", b.AMQP)
		}
		if err := b.Kill(); !errors.Is(err, ErrNotOwned) {
			t.Errorf("kill: %v", err)
		}
	}
	if want := []string{"3.10", "4.0", "4.0-2"}; !reflect.DeepEqual(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	if err := StopAll(t.Context(), all); err != nil {
		t.Error(err)
	}

	// What Environment makes of the brokers names the same brokers.
	for _, variable := range Environment(all[:1]) {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	again, err := All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, all[:1]) {
		t.Errorf("got %+v, want %+v", again[0], all[0])
	}
}

func TestGivenBrokersSelected(t *testing.T) {
	t.Setenv(EnvEndpoints, fakeBroker(t, "3.10.8")+","+fakeBroker(t, "4.0.5"))
	t.Setenv(EnvAMQPEndpoints, "")
	t.Setenv(EnvVersions, "4.0")
	all, err := All(t.Context())
	if err != nil || len(all) != 1 || all[0].Version != "4.0.5" {
		t.Errorf("got %+v, %v", all, err)
	}
	t.Setenv(EnvVersions, "4.3")
	if _, err := All(t.Context()); err == nil || !strings.Contains(err.Error(), EnvVersions) {
		t.Errorf("got error %v", err)
	}
}
