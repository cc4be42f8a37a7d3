// Package diagnostics turns errors and problems into diagnostics of Terraform.
package diagnostics
