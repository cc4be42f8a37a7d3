# An application team attaches its queues to the tiers of the platform team, which
# have to exist. It needs only their name.

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

# Queues that this configuration declares.
resource "rabbitmq_retry_attachment" "team" {
  for_each = toset(["shipping", "shipping-labels"])

  tiers = "standard"
  vhost = var.vhost
  queue = each.key
}

# A queue that an application declares by itself. When it is detached, what is
# under way is parked instead of being waited for.
resource "rabbitmq_retry_attachment" "billing" {
  tiers     = "standard"
  vhost     = var.vhost
  queue     = "billing"
  ownership = "application"
  on_detach = "park"
}
