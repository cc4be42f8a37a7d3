package rabbit

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestOrderOfSources(t *testing.T) {
	names := func(version string) []string {
		var list []string
		for _, s := range sources(version) {
			list = append(list, s.name)
		}
		return list
	}
	want := []string{"Docker", "installed rabbitmq-server", "Debian package rabbitmq-server", "Debian tree"}
	if got := names(""); !reflect.DeepEqual(got, want) {
		t.Errorf("any version: %q, want %q", got, want)
	}
	want = []string{"installed rabbitmq-server", "Debian tree", "Docker", "Debian package rabbitmq-server"}
	if got := names("4.0"); !reflect.DeepEqual(got, want) {
		t.Errorf("4.0: %q, want %q", got, want)
	}
}

func TestNewestFirst(t *testing.T) {
	var got []string
	for _, c := range newestFirst() {
		got = append(got, strings.TrimSpace(c.name+" "+c.version))
	}
	want := []string{
		"Docker",
		"installed rabbitmq-server 4.3", "Debian tree 4.3",
		"installed rabbitmq-server 4.0", "Debian tree 4.0",
		"installed rabbitmq-server 3.10", "Debian tree 3.10",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChooseNewest(t *testing.T) {
	var log strings.Builder
	fails := func(context.Context, string, io.Writer) (origin, error) {
		return nil, errors.New("root may not mount here")
	}
	works := func(_ context.Context, version string, _ io.Writer) (origin, error) {
		return image("rabbitmq:" + version), nil
	}
	candidates := []candidate{
		{source{"Docker", fails}, ""},
		{source{"Debian tree", fails}, "4.3"},
		{source{"installed rabbitmq-server", works}, "4.0"},
		{source{"installed rabbitmq-server", works}, "3.10"},
	}
	got, err := chooseNewest(t.Context(), candidates, &log)
	if err != nil || got != image("rabbitmq:4.0") {
		t.Errorf("got %v, %v", got, err)
	}
	if want := "RabbitMQ 4.3 is not available from a Debian tree: root may not mount here\n"; log.String() != want {
		t.Errorf("log %q, want %q", log.String(), want)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := chooseNewest(ended, candidates, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context has ended: %v", err)
	}
}

func TestChoose(t *testing.T) {
	fails := func(context.Context, string, io.Writer) (origin, error) { return nil, errors.New("needs root") }
	works := func(context.Context, string, io.Writer) (origin, error) { return image("rabbitmq:test"), nil }

	from := []source{{"first", fails}, {"second", works}, {"third", fails}}
	got, err := chooseFrom(t.Context(), from, "4.0", io.Discard)
	if err != nil || got != image("rabbitmq:test") {
		t.Errorf("got %v, %v", got, err)
	}

	from = []source{{"first", fails}, {"second", fails}}
	_, err = chooseFrom(t.Context(), from, "4.0", io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"RabbitMQ 4.0", "first: needs root", "second: needs root", "Install Docker", EnvEndpoints} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not hold %q:\n%v", part, err)
		}
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := chooseFrom(ended, from, "", io.Discard); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "Docker") {
		t.Errorf("after the context has ended: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, bad := range []Options{
		{Version: "4"},
		{Version: "latest"},
		{Version: "4.3", Newest: true},
		{PathPrefix: "rabbit"},
		{PathPrefix: "/rabbit/"},
		{TLS: &TLSFiles{Cert: "cert.pem", Key: "key.pem"}},
	} {
		if _, err := Start(t.Context(), bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestConfig(t *testing.T) {
	o := Options{
		PathPrefix:  "/rabbit",
		IPv6:        true,
		TLS:         &TLSFiles{CA: "a", Cert: "b", Key: "c", VerifyPeer: true, FailIfNoPeerCert: true},
		ExtraConfig: "heartbeat = 10",
		Plugins:     []string{"rabbitmq_shovel"},
	}
	p := ports{management: 1, tls: 2, amqp: 3}
	const wal = "raft.wal_max_size_bytes = 17179869184\nraft.wal_max_entries = 1000000000\n"
	want := "loopback_users.guest = true\n" + wal + `management.tcp.port = 1
listeners.tcp.1 = 127.0.0.1:3
management.tcp.ip = ::1
management.path_prefix = /rabbit
management.ssl.port = 2
management.ssl.ip = ::1
management.ssl.cacertfile = /dir/ca.pem
management.ssl.certfile = /dir/cert.pem
management.ssl.keyfile = /dir/key.pem
management.ssl.verify = verify_peer
management.ssl.fail_if_no_peer_cert = true
heartbeat = 10
`
	if got := o.config(p, "/dir", false); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got, want := o.plugins(), "[rabbitmq_management,rabbitmq_shovel].\n"; got != want {
		t.Errorf("plugins %q, want %q", got, want)
	}
	b := o.broker(p)
	if b.Endpoint != "http://[::1]:1/rabbit" || b.TLSEndpoint != "https://[::1]:2/rabbit" || b.AMQP != "amqp://guest:guest@127.0.0.1:3" {
		t.Errorf("addresses %+v", b)
	}

	want = "loopback_users.guest = false\n" + wal + "management.tcp.port = 1\nlisteners.tcp.default = 3\n"
	if got := (Options{}).config(p, "/dir", true); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestCacheDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("RETRYCHAIN_CACHE", "")
	for _, step := range []struct{ name, value, want string }{
		{"HOME", home, filepath.Join(home, ".cache", "terraform-provider-rabbitmq")},
		{"XDG_CACHE_HOME", "/xdg", "/xdg/terraform-provider-rabbitmq"},
		{"RETRYCHAIN_CACHE", "/own", "/own"},
	} {
		t.Setenv(step.name, step.value)
		if got, err := CacheDir(); err != nil || got != step.want {
			t.Errorf("with %s: %q, %v; want %q", step.name, got, err, step.want)
		}
	}
}

func TestPortBlocksDiffer(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		base, err := portBlock()
		if err != nil {
			t.Fatal(err)
		}
		if seen[base] || base < 20000 || base+blockSize > 32000 {
			t.Errorf("block at %d", base)
		}
		seen[base] = true
	}
}

// fakeDocker puts a program named docker before all others. It writes its
// arguments, and what it copies, into the returned directory.
func fakeDocker(t *testing.T, script string) string {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the fake docker is a shell script:", err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\necho \"$*\" >>'" + dir + "/calls'\n" + script
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_DOCKER_DIR", dir)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}
