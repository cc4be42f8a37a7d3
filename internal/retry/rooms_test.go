package retry_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strategyNames are the constants of the strategies.
var strategyNames = []string{"Headers", "RoutingKey", "Republish", "DelayedRetry", "DelayedExchange"}

// Only the designs and their registry may know which strategy a chain has: everything else
// asks the design.
func TestNothingElseAsksForTheStrategy(t *testing.T) {
	own := []string{
		"retry/chain.go", "retry/design.go", "retry/headers.go", "retry/routing_key.go", "retry/republish.go", "retry/delayed_retry.go",
		"retry/delayed_exchange.go", "retry/shared.go",
	}
	files := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../internal/")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "../.." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), slices.Contains(own, name):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, at := range strategiesIn(file) {
			t.Errorf("%s names a strategy: ask retry.DesignOf instead", set.Position(at))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files", files)
	}
}

// strategiesIn finds the constants of the strategies, as retry.Headers or inside package
// retry as Headers.
func strategiesIn(file *ast.File) []token.Pos {
	var found []token.Pos
	inside := file.Name.Name == "retry"
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, is := n.X.(*ast.Ident); is && of.Name == "retry" && slices.Contains(strategyNames, n.Sel.Name) {
				found = append(found, n.Pos())
			}
			return false
		case *ast.BinaryExpr:
			for _, side := range []ast.Expr{n.X, n.Y} {
				if id, is := side.(*ast.Ident); is && inside && slices.Contains(strategyNames, id.Name) {
					found = append(found, id.Pos())
				}
			}
		case *ast.CaseClause:
			for _, value := range n.List {
				if id, is := value.(*ast.Ident); is && inside && slices.Contains(strategyNames, id.Name) {
					found = append(found, id.Pos())
				}
			}
		}
		return true
	})
	return found
}

func TestStrategiesInFindsThem(t *testing.T) {
	for source, want := range map[string]int{
		"package retry\nfunc f(s Strategy) bool { return s == Headers }":                             1,
		"package retry\nfunc f(s Strategy) { switch s { case RoutingKey, Republish: } }":             2,
		"package x\nfunc f(s retry.Strategy) bool { return s != retry.DelayedRetry }":                1,
		"package x\nfunc f(c C) bool { return c.Headers == nil && topology.Headers == \"headers\" }": 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(strategiesIn(file)); got != want {
			t.Errorf("%s: found %d, expected %d", source, got, want)
		}
	}
}
