import java.util.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.TopicPartition;

/** Moves partitions of a topic to brokers, as `ADDRESS TOPIC 0=2,3 1=3`; ends when they are there. */
class Reassign {
    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            Map<TopicPartition, Optional<NewPartitionReassignment>> wanted = new HashMap<>();
            for (String move : Arrays.copyOfRange(arguments, 2, arguments.length)) {
                String[] parts = move.split("=");
                List<Integer> brokers = Arrays.stream(parts[1].split(",")).map(Integer::valueOf).toList();
                var place = new TopicPartition(arguments[1], Integer.parseInt(parts[0]));
                wanted.put(place, Optional.of(new NewPartitionReassignment(brokers)));
            }
            admin.alterPartitionReassignments(wanted).all().get();
            while (!admin.listPartitionReassignments(wanted.keySet()).reassignments().get().isEmpty()) {
                Thread.sleep(50);
            }
        }
    }
}
