# The queues "billing" and "invoices" belong to applications, and "parking" to
# everybody: somebody else declares them. The chains attach to them by a policy
# each, without declaring or changing them, and share one parking queue.

terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {} # the environment says where the broker is

variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_retry_chain" "applications" {
  for_each = toset(["billing", "invoices"])

  name   = each.key
  vhost  = var.vhost
  delays = ["5s", "1m"]

  work_queue    = { name = each.key, ownership = "application" }
  parking_queue = { name = "parking", ownership = "application" }

  policy = {
    priority = 500  # above every other policy that matches these queues
    inherit  = true # carry over the settings of the policy that this one displaces
    shield   = true # keep other policies away from the chain's own queues
  }
}
