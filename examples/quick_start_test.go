package examples_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const (
	index = "../docs/index.md"
	// origin is what the quick start clones. The test clones this working tree instead.
	origin = "https://github.com/retrychain/terraform-provider-rabbitmq"
	// quickStartBroker is the address in the quick start, with guest as user and password.
	quickStartBroker = "http://localhost:15672"
)

// quickStart are the code blocks of a section named so.
type quickStart struct {
	install, config, apply string
}

var (
	quickStartSection = regexp.MustCompile(`(?ms)^## Quick start$(.*?)^## `)
	anyBlock          = regexp.MustCompile("(?ms)^```\\w+\n(.*?)^```")
)

func readQuickStart(t *testing.T, path string) quickStart {
	t.Helper()
	section := quickStartSection.FindString(read(t, path))
	blocks := anyBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) != 3 {
		t.Fatalf("the quick start in %s has %d code blocks, expected install, configuration and apply", path, len(blocks))
	}
	return quickStart{install: blocks[0][1], config: blocks[1][1], apply: blocks[2][1]}
}

// TestQuickStartIsOne: the README and the front page of the documentation have the same
// quick start.
func TestQuickStartIsOne(t *testing.T) {
	t.Parallel()
	if one, other := readQuickStart(t, readme), readQuickStart(t, index); one != other {
		t.Errorf("the quick starts differ:\n%+v\n%+v", one, other)
	}
}

// TestAccQuickStart runs the quick start as written, in an empty home. Only the address of
// the broker is another one, and the environment names the test's own virtual host.
func TestAccQuickStart(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, program := range []string{"git", "make", "go"} {
			if _, err := exec.LookPath(program); err != nil {
				t.Skip(err)
			}
		}
		steps, vhost := readQuickStart(t, readme), acctest.VHost(t, b)
		u := newUser(t)
		u.env["RABBITMQ_VHOST"] = vhost
		u.run(u.env["HOME"], steps.install, "")

		folder := filepath.Join(u.env["HOME"], "retry")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "main.tf"), []byte(steps.config), 0o600); err != nil {
			t.Fatal(err)
		}
		output := u.run(folder, u.forCLI(atBroker(t, steps.apply, b)), "yes\n")
		if !strings.Contains(output, "Apply complete! Resources: 1 added") {
			t.Errorf("nothing was applied:\n%s", output)
		}
		if _, err := acctest.API(t, b).GetQueue(vhost, "orders.parking"); err != nil {
			t.Error(err)
		}
	})
}

// atBroker replaces the address and the user of the quick start's broker.
func atBroker(t *testing.T, script string, b *rabbit.Broker) string {
	t.Helper()
	if !strings.Contains(script, quickStartBroker) {
		t.Fatalf("the quick start does not name %s", quickStartBroker)
	}
	return strings.NewReplacer(
		quickStartBroker, b.Endpoint, "USERNAME=guest", "USERNAME="+b.Username, "PASSWORD=guest", "PASSWORD="+b.Password,
	).Replace(script)
}

// user is somebody with an empty home and a Terraform CLI, whose Go finds what has been
// downloaded and compiled on this machine.
type user struct {
	t   *testing.T
	cli string // "terraform" or "tofu"
	env map[string]string
}

func newUser(t *testing.T) *user {
	t.Helper()
	path := os.Getenv("TF_ACC_TERRAFORM_PATH")
	isTofu, err := cli.IsTofu(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, cli: "terraform", env: map[string]string{"HOME": t.TempDir(), "CHECKPOINT_DISABLE": "1"}}
	if isTofu {
		u.cli = "tofu"
	}
	programs := t.TempDir()
	if err := os.Symlink(path, filepath.Join(programs, u.cli)); err != nil {
		t.Skip(err)
	}
	u.env["PATH"] = programs + string(os.PathListSeparator) + os.Getenv("PATH")
	maps.Copy(u.env, goEnv(t, "GOMODCACHE", "GOCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN"))
	maps.Copy(u.env, map[string]string{
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": origin, "GIT_CONFIG_KEY_0": "url." + repository(t) + ".insteadOf",
	})
	return u
}

func goEnv(t *testing.T, names ...string) map[string]string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	env, values := map[string]string{}, strings.Split(string(output), "\n")
	for i, name := range names {
		env[name] = values[i]
	}
	return env
}

// repository returns a repository with the files of this working tree, committed or not.
func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "origin.git")
	author := []string{"-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false"}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", dir},
		{"--git-dir", dir, "--work-tree", root, "add", "--all", "."},
		append(author, "--git-dir", dir, "--work-tree", root, "commit", "--quiet", "--message", "working tree"),
	} {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = root
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %s\n%s", args, err, output)
		}
	}
	return dir
}

// forCLI writes the name of the program as a user of OpenTofu does.
func (u *user) forCLI(script string) string {
	return regexp.MustCompile(`(?m)^terraform `).ReplaceAllString(script, u.cli+" ")
}

// run runs a script in a folder with nothing in its environment but the user's.
func (u *user) run(folder, script, input string) string {
	u.t.Helper()
	command := exec.CommandContext(u.t.Context(), "sh", "-e", "-c", script)
	command.Dir, command.Stdin, command.Env = folder, strings.NewReader(input), []string{}
	for name, value := range u.env {
		command.Env = append(command.Env, name+"="+value)
	}
	output, err := command.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s\n%s\n%s", script, err, output)
	}
	u.t.Logf("%s", output)
	return string(output)
}
