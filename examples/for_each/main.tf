terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {}

variable "vhost" {
  type    = string
  default = "/"
}

variable "queues" {
  description = "Work queues and the waits before their retries."
  type        = map(list(string))
  default = {
    orders   = ["5s", "30s", "5m"]
    invoices = ["1m", "10m", "1h"]
    emails   = ["10s", "10s", "10s"]
  }
}

resource "rabbitmq_retry_chain" "this" {
  for_each = var.queues

  name   = each.key
  vhost  = var.vhost
  delays = each.value
}

output "parking_queues" {
  value = { for name, chain in rabbitmq_retry_chain.this : name => chain.parking_queue.name }
}
