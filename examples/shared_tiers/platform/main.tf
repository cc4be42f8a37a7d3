# The platform team owns the tiers and the parking queue. The state of this
# configuration is its own: no team has to ask for a change of it.

terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

provider "rabbitmq" {} # from RABBITMQ_ENDPOINT, RABBITMQ_USERNAME and RABBITMQ_PASSWORD

variable "vhost" {
  type    = string
  default = "/"
}

resource "rabbitmq_retry_tiers" "standard" {
  name   = "standard"
  vhost  = var.vhost
  delays = ["5s", "30s", "5m"]
}

output "parking_queue" {
  description = "To be watched: what is here needs a person."
  value       = rabbitmq_retry_tiers.standard.parking_queue.name
}
