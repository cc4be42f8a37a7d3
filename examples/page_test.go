package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/debian"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// hostile names mean something in HTML, JSON or templates of Terraform, if
// somebody forgets to escape them.
var hostile = []string{
	"<script>document.title='owned'</script>", `<img src=x onerror="document.title='owned'">`, `\u003cb\u003e\\u0026`,
	"a&lt;b", `"quoted'`, "${1 + 1} %{ if }",
}

// TestAccPage renders the page of the example and looks at it in a browser: all
// text is there and visible, nothing is cut off or runs out of the page, names
// are text and nothing else, and the browser has nothing to complain of.
func TestAccPage(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		browser, err := debian.Find(t.Context(), debian.Browser)
		if err != nil {
			t.Skipf("no browser to look at the page with: %s", err)
		}
		page := renderPage(t, b)
		for _, pattern := range []string{`(?i)<script`, `(?i)<[^>]*\b(src|href|on\w+)=`, `(?i)<link`, `@import`, `url\(`} {
			if match := regexp.MustCompile(pattern).FindString(page); match != "" {
				t.Errorf("the page holds %q: it must not load or run anything", match)
			}
		}
		for name, flags := range map[string][]string{
			"light": {"--window-size=1200,1000", "--blink-settings=preferredColorScheme=1"},
			"dark":  {"--window-size=420,1000", "--blink-settings=preferredColorScheme=0"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := look(t, browser, page, flags...)
				checkSeen(t, s)
				if s.Dark != (name == "dark") {
					t.Errorf("the page is dark: %t", s.Dark)
				}
			})
		}
	})
}

// renderPage applies the example with chains of hostile names and a queue that
// the audit finds fault with, and returns its output.
func renderPage(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	vhost := acctest.VHost(t, b)
	worker := acctest.Worker(t, b, vhost)
	ch, err := worker.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	arguments := amqp.Table{"x-dead-letter-exchange": "<i>nowhere</i>"}
	if _, err := ch.QueueDeclare("<b>fault</b>", true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	chains := map[string][]string{"many": slices.Repeat([]string{"90s"}, 9), strings.Repeat("long", 50): {"5s"}}
	for _, name := range hostile {
		chains[name] = []string{"5s", "1m"}
	}
	text, err := json.Marshal(chains)
	if err != nil {
		t.Fatal(err)
	}
	files := configuration(t, "page")
	files["page.html.tftpl"] = read(t, "page/page.html.tftpl")
	files["test.auto.tfvars.json"] = `{"chains": ` + string(text) + `}`
	w := workspace(t, b, vhost, files)
	acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
	for _, key := range []string{
		hostile[0], hostile[0], hostile[1], "order.3", "order.3", "order.4", "order.4", "order.5", "order.5", "order.6",
	} {
		if err := worker.Publish(t.Context(), "many.parking", key, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
	}
	acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
	page, err := w.Command(t.Context(), "output", "-raw", "page").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// seen is what the browser says of the page.
type seen struct {
	Title, Text string
	// Scripts and Images are their numbers; the one script is the test's.
	Scripts, Images int
	// Dark says whether the page is darker than its text.
	Dark bool
	// Wide are elements whose content runs out of them, and Faint those whose
	// text can hardly be told from what is behind it.
	Wide, Faint []string
	// Console is what the browser wrote to its console.
	Console []string
}

// measure is run in the browser after the page. Contrast is that of WCAG 2.2.
const measure = `<script>
  const rgb = text => text.match(/[\d.]+/g).map(Number);
  const light = color => {
    const [r, g, b] = color.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const contrast = e => {
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(behind(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const all = [...document.body.querySelectorAll("*")].filter(e => e.tagName !== "SCRIPT");
  const name = e => e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 40);
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim() !== "");
  const report = {
    title: document.title, text: document.body.innerText, scripts: document.scripts.length, images: document.images.length,
    dark: light(behind(document.body)) < light(rgb(getComputedStyle(document.body).color)),
    wide: all.filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 ||
      (getComputedStyle(e).display !== "inline" && e.scrollWidth > e.clientWidth + 1)).map(name),
    faint: all.filter(e => own(e) && contrast(e) < 4.5).map(name),
  };
  const pre = document.createElement("pre");
  pre.id = "report";
  pre.textContent = JSON.stringify(report);
  document.body.append(pre);
</script>`

var (
	reportElement = regexp.MustCompile(`(?s)<pre id="report">(.*?)</pre>`)
	consoleLine   = regexp.MustCompile(`(?m)^.*:CONSOLE.*$`)
)

// look opens the page in a browser with these flags.
func look(t *testing.T, browser debian.Found, page string, flags ...string) seen {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "page.html")
	if err := os.WriteFile(path, []byte(strings.Replace(page, "</body>", measure+"</body>", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	flags = append(flags, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+path)
	command := browser.Command(ctx, flags...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s\n%s", err, stderr.String())
	}
	match := reportElement.FindStringSubmatch(stdout.String())
	if match == nil {
		t.Fatalf("the browser did not measure the page:\n%s\n%s", stdout.String(), stderr.String())
	}
	var s seen
	if err := json.Unmarshal([]byte(html.UnescapeString(match[1])), &s); err != nil {
		t.Fatal(err)
	}
	s.Console = consoleLine.FindAllString(stderr.String(), -1)
	return s
}

func checkSeen(t *testing.T, s seen) {
	t.Helper()
	for _, text := range append([]string{
		"8 chains", "10 parked", "other routing keys", "0 parked", "not known", "wait 90s",
		"attempt 10 rejected", "many.retry.1m30s.9", "many.parking", "As of ",
		"1 error in the audit", "queue <b>fault</b>", "<i>nowhere</i>",
	}, hostile...) {
		if !strings.Contains(strings.ReplaceAll(s.Text, "\n", " "), text) {
			t.Errorf("the text %q is not to be seen:\n%s", text, s.Text)
		}
	}
	if s.Scripts != 1 || s.Images != 0 || !strings.HasPrefix(s.Title, "Retry chains in test-") {
		t.Errorf("a name was taken for HTML: %d scripts, %d images, title %q", s.Scripts-1, s.Images, s.Title)
	}
	if len(s.Wide) > 0 || len(s.Faint) > 0 || len(s.Console) > 0 {
		t.Errorf("too wide: %q\nhard to read: %q\nconsole: %q", s.Wide, s.Faint, s.Console)
	}
}
