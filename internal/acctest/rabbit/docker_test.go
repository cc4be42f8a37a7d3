package rabbit

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDockerThatDoesNotAnswer(t *testing.T) {
	fakeDocker(t, "echo 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
	_, err := dockerOrigin(t.Context(), "4.0", io.Discard)
	if err == nil || !strings.Contains(err.Error(), "Cannot connect to the Docker daemon") {
		t.Errorf("got %v", err)
	}
}

// There is no Docker where these tests were written: a script stands for the
// client and the test for the broker in the container.
func TestContainer(t *testing.T) {
	dir := fakeDocker(t, `case $1 in
info) echo 28.0 ;;
image) exit 1 ;;
cp) cp -r "$2" "$FAKE_DOCKER_DIR/etc" ;;
inspect) echo true ;;
exec) shift 2; echo "$@" ;;
esac
`)
	var log strings.Builder
	from, err := dockerOrigin(t.Context(), "4.0", &log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "rabbitmq:4.0-management") {
		t.Errorf("log %q", log.String())
	}
	b, err := from.start(t.Context(), Options{PathPrefix: "/p", IPv6: true})
	if err != nil {
		t.Fatal(err)
	}
	serveContainer(t, b)
	if err := b.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.Version != "4.0.9" {
		t.Errorf("version %q", b.Version)
	}
	config, err := os.ReadFile(filepath.Join(dir, "etc", "conf.d", "99-test.conf"))
	if err != nil || !strings.Contains(string(config), "loopback_users.guest = false") {
		t.Errorf("configuration %q, %v", config, err)
	}

	// Another process can control it.
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var other Broker
	if err := json.Unmarshal(text, &other); err != nil {
		t.Fatal(err)
	}
	if said, err := other.Ctl(t.Context(), "status", "--silent"); err != nil || said != "rabbitmqctl status --silent" {
		t.Errorf("ctl: %q, %v", said, err)
	}
	if err := other.Kill(); err != nil {
		t.Error(err)
	}
	if err := other.Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	checkCalls(t, dir)
}

// serveContainer answers on the addresses that the container would publish.
func serveContainer(t *testing.T, b *Broker) {
	t.Helper()
	listen := func(address string) net.Listener {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", u.Host)
		if err != nil {
			t.Skip("no such address on this machine:", err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	listen(b.AMQP)
	go http.Serve(listen(b.Endpoint), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"rabbitmq_version":"4.0.9"}`)
	}))
}

// checkCalls compares the calls of the fake docker, whose names and ports vary.
func checkCalls(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for pattern, fixed := range map[string]string{
		`retrychain-[a-z0-9]{12}`: "NAME",
		`:[0-9]{5}:`:              ":PORT:",
		`cp .*/rabbit-[0-9]+/\.`:  "cp DIR/.",
	} {
		got = regexp.MustCompile(pattern).ReplaceAllString(got, fixed)
	}
	want := `info --format {{.ServerVersion}}
image inspect rabbitmq:4.0-management
pull --quiet rabbitmq:4.0-management
create --name NAME --publish 127.0.0.1:PORT:5672 --publish [::1]:PORT:15672 rabbitmq:4.0-management
cp DIR/. NAME:/etc/rabbitmq
start NAME
exec NAME rabbitmqctl status --silent
inspect --format {{.State.Running}} NAME
kill NAME
restart NAME
rm --force --volumes NAME
rm --force --volumes NAME
`
	if got != want {
		t.Errorf("calls:\n%s\nwant:\n%s", got, want)
	}
}
