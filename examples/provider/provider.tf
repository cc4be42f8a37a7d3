terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

# Every attribute can come from the environment instead: RABBITMQ_ENDPOINT,
# RABBITMQ_USERNAME, RABBITMQ_PASSWORD and so on.
provider "rabbitmq" {
  endpoint = "http://localhost:15672"
  username = "guest"
  password = "guest"
}
