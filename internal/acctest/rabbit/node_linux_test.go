package rabbit

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// childVariable makes the test binary start a node and wait to be killed.
const childVariable = "RABBIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		startAndWait()
	}
	m.Run()
}

// startAndWait prints a broker as JSON and never ends.
func startAndWait() {
	b, err := Start(context.Background(), Options{Version: os.Getenv(childVariable)})
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(b); err != nil {
		panic(err)
	}
	select {}
}

// startNode starts a private node for a test and stops it at its end. It skips
// the test where there can be none.
func startNode(t *testing.T, o Options) (*Broker, *node) {
	t.Helper()
	needSource(t, o.Version)
	b := Own(t, o)
	n, ok := b.run.(*node)
	if !ok {
		t.Skipf("the broker came from %s: not a private node", b.Source)
	}
	return b, n
}

func needSource(t *testing.T, version string) {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("starts a broker: set TF_ACC=1, or run make test")
	}
	if _, err := Prepare(t.Context(), version, t.Output()); err != nil {
		t.Skip(err)
	}
}

// testVersions are the versions the environment asks for, or all.
func testVersions(t *testing.T) []string {
	t.Helper()
	list, err := SelectedVersions()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		list = Versions()
	}
	return list
}

// newest is the version for tests that need only one.
func newest(t *testing.T) string {
	t.Helper()
	list := testVersions(t)
	return list[len(list)-1]
}

// onlyFull skips what tests the brokers of the tests more closely than every run needs:
// each start of a node takes as much of the processor as ten other tests.
func onlyFull(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Skip("TestLifeOfANode starts, kills and ends a node; make test-full tries more ways")
	}
}

func TestLifeOfANode(t *testing.T) {
	t.Parallel()
	for _, version := range Spread(t.Name(), testVersions(t)) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b, n := startNode(t, Options{Version: version, Log: t.Output()})
			if b.Name != version || minor(b.Version) != version {
				t.Errorf("name %q, version %q", b.Name, b.Version)
			}
			ctl(t, b, "add_vhost", "kept")

			if err := b.Kill(); err != nil {
				t.Fatal(err)
			}
			if b.Running(t.Context()) || listens(b.Endpoint) || listens(b.AMQP) {
				t.Errorf("the broker still runs: processes %v, management %t, AMQP %t",
					n.processes(), listens(b.Endpoint), listens(b.AMQP))
			}
			if left := n.everything(); len(left) != 1 || left[0] != n.Epmd {
				t.Errorf("processes %v remain, want epmd %d alone", left, n.Epmd)
			}

			if err := b.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if hosts := ctl(t, b, "list_vhosts"); !strings.Contains(hosts, "kept") {
				t.Errorf("after the restart the virtual hosts are:\n%s", hosts)
			}
			if err := b.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkGone(t, b, n)
		})
	}
}

// A node with a directory of its own ends in good order, even when it is another
// process that stops it.
func TestKeptNode(t *testing.T) {
	t.Parallel()
	onlyFull(t)
	o := Options{Version: newest(t), Dir: t.TempDir(), Detached: true, ExtraConfig: "heartbeat = 17"}
	b, n := startNode(t, o)
	ctl(t, b, "add_vhost", "kept")
	if value := ctl(t, b, "eval", "application:get_env(rabbit, heartbeat)."); !strings.Contains(value, "17") {
		t.Errorf("the heartbeat is %s", value)
	}
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var other Broker
	if err := json.Unmarshal(text, &other); err != nil {
		t.Fatal(err)
	}
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := n.everything(); len(left) > 0 {
		t.Errorf("processes %v remain", left)
	}
	if log, err := os.ReadFile(n.path(logFile)); err != nil || !strings.Contains(string(log), "SIGTERM received") {
		t.Errorf("the node did not end in good order (%v):\n%s", err, tail(string(log), 5))
	}
}

func TestNodeEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	onlyFull(t)
	version := newest(t)
	needSource(t, version)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+version)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal("the child started no broker:", err)
	}
	var b Broker
	if err := json.Unmarshal(line, &b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Stop(context.Background()) })
	n, ok := b.run.(*node)
	if !ok {
		t.Skipf("the broker came from %s: not a private node", b.Source)
	}
	if !b.Running(t.Context()) {
		t.Fatal("the broker does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 600 { // half a minute
		if _, err := os.Stat(n.Dir); err != nil && len(n.everything()) == 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	checkGone(t, &b, n)
}

func TestNodeThatDoesNotStart(t *testing.T) {
	t.Parallel()
	version := newest(t)
	needSource(t, version)
	_, err := Start(t.Context(), Options{Version: version, ExtraConfig: "no.such.key = 1"})
	if err == nil || !strings.Contains(err.Error(), "no.such.key") {
		t.Errorf("got %v, want an error with the end of the node's log", err)
	}
}

func TestStartIsAborted(t *testing.T) {
	t.Parallel()
	onlyFull(t)
	version := newest(t)
	needSource(t, version)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	b, err := Start(ctx, Options{Version: version})
	if err == nil {
		b.Stop(context.Background())
		t.Fatal("no error")
	}
	if ctx.Err() == nil {
		t.Errorf("failed before the time was up: %v", err)
	}
}

// ctl runs rabbitmqctl and returns what it said.
func ctl(t *testing.T, b *Broker, args ...string) string {
	t.Helper()
	said, err := b.Ctl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// listens says whether something accepts connections at the host of a URL.
func listens(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	conn, err := net.Dial("tcp", u.Host)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// checkGone checks that nothing is left of a node in a temporary directory.
func checkGone(t *testing.T, b *Broker, n *node) {
	t.Helper()
	if left := n.everything(); len(left) > 0 {
		t.Errorf("processes %v remain", left)
	}
	// A process that has given up its memory may not have closed its sockets yet.
	for deadline := time.Now().Add(30 * time.Second); listens(b.Endpoint) || listens(b.AMQP); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("something still listens on the broker's ports")
			break
		}
	}
	if _, err := os.Stat(n.Dir); err == nil {
		t.Errorf("%s remains", n.Dir)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), mountPoint) {
		t.Errorf("something is still mounted (%v):\n%s", err, mounts)
	}
}
