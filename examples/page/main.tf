# The retry chains of a virtual host as one static HTML page, without a server:
#
#   terraform apply
#   terraform output -raw page > page.html

terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

variable "vhost" {
  type    = string
  default = "/"
}

variable "chains" {
  description = "Delays of each chain, by name."
  type        = map(list(string))
  default = {
    billing  = ["1m", "10m", "1h", "6h"]
    orders   = ["5s", "30s", "5m"]
    webhooks = []
  }
}

resource "rabbitmq_retry_chain" "all" {
  for_each = var.chains

  vhost  = var.vhost
  name   = each.key
  delays = each.value
}

data "rabbitmq_parked_messages" "all" {
  for_each = rabbitmq_retry_chain.all

  vhost = var.vhost
  queue = each.value.parking_queue.name
  limit = 0

  depends_on = [rabbitmq_retry_chain.all]
}

data "rabbitmq_retry_audit" "all" {
  vhost = var.vhost

  depends_on = [rabbitmq_retry_chain.all]
}

locals {
  page = {
    vhost    = var.vhost
    time     = formatdate("D MMM YYYY, hh:mm 'UTC'", plantimestamp())
    findings = data.rabbitmq_retry_audit.all.findings
    chains = [for key, chain in rabbitmq_retry_chain.all : {
      name        = chain.name
      strategy    = chain.strategy
      attempts    = length(chain.delays) + 1
      total_delay = reverse(provider::rabbitmq::retry_schedule(chain.delays))[0].elapsed
      work        = chain.work_queue.name
      parking     = chain.parking_queue.name
      tiers       = [for i, queue in chain.tiers : { delay = chain.delays[i], queue = queue }]
      draining    = chain.draining
      parked      = data.rabbitmq_parked_messages.all[key].total
      groups      = [for i, group in data.rabbitmq_parked_messages.all[key].groups.by_routing_key : group if i < 5]
      # Messages with other routing keys than those five.
      others = data.rabbitmq_parked_messages.all[key].total - sum(concat([0], [for i, group in data.rabbitmq_parked_messages.all[key].groups.by_routing_key : group.count if i < 5]))
    }]
  }

  # What others have named must not become HTML: "<" turns into "&lt;", and so
  # on. jsonencode writes "&", "<" and ">" as \u0026, \u003c and \u003e wherever
  # they are, and so one expression escapes every string. Backslashes are out of
  # the way first: a name can hold the text \u003c itself.
  json    = replace(jsonencode(local.page), "\\\\", "\\u005c")
  escaped = replace(replace(replace(local.json, "\\u0026", "&amp;"), "\\u003c", "&lt;"), "\\u003e", "&gt;")
}

output "page" {
  description = "The page in HTML. Names are escaped for text, not for attributes."
  value       = templatefile("${path.module}/page.html.tftpl", jsondecode(local.escaped))
}
