import {
  to = rabbitmq_delay_network.delays
  id = "delays@/"
}
